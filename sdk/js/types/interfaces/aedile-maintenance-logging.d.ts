declare module 'aedile:maintenance/logging@0.1.0' {
  /**
   * Write one line to the host's log under the plugin's name. Control
   * characters are escaped. Past the tick's log budget lines are dropped
   * and counted.
   */
  export function log(level: Level, message: string): void;
  /**
   * How much a line matters.
   * # Variants
   * 
   * ## `"debug"`
   * 
   * Of use to the plugin's author.
   * ## `"info"`
   * 
   * Of use to an operator who is looking.
   * ## `"warn"`
   * 
   * An operator should look at it in time.
   * ## `"error"`
   * 
   * An operator should look at it now.
   */
  export type Level = 'debug' | 'info' | 'warn' | 'error';
}
