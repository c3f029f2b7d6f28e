declare module 'aedile:maintenance/metrics@0.1.0' {
  /**
   * Add to a counter. Names are lower-case words joined by underscores, at
   * most 64 bytes; a tick may use 64 of them, more are dropped and counted.
   */
  export function count(name: string, by: bigint): void;
  /**
   * Set a gauge.
   */
  export function gauge(name: string, value: number): void;
}
