declare module 'aedile:maintenance/maintenance@0.1.0' {
  /**
   * Check a configuration: JSON text, an object. Called before the plugin's
   * first tick with it; the text of an error is shown to the operator.
   */
  export function validateConfig(config: string): void;
  /**
   * Do one portion of the work.
   */
  export function tick(): Report;
  /**
   * What a tick did.
   */
  export interface Report {
    /**
     * One line for the run history; empty for a tick that did nothing.
     */
    summary: string,
    /**
     * How many things it did, in the plugin's own unit.
     */
    done: bigint,
    /**
     * How many things it left because they failed.
     */
    failed: bigint,
    /**
     * Whether more is waiting: the host then ticks again at once.
     */
    more: boolean,
  }
  /**
   * Ask to be called again later.
   */
  export interface Retry {
    /**
     * How long to wait at least, in milliseconds; 0 leaves it to the host.
     */
    afterMs: bigint,
    /**
     * Why, for the operator.
     */
    reason: string,
  }
  /**
   * Why a tick failed, and what the host is to do.
   */
  export type Failure = FailureRetry | FailureReject;
  /**
   * Try again after a while.
   */
  export interface FailureRetry {
    tag: 'retry',
    val: Retry,
  }
  /**
   * Trying again is of no use until an operator acts; the text says how.
   */
  export interface FailureReject {
    tag: 'reject',
    val: string,
  }
}
