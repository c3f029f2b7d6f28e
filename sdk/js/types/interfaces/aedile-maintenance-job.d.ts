/// <reference path="./aedile-maintenance-types.d.ts" />
declare module 'aedile:maintenance/job@0.1.0' {
  /**
   * Time of this tick by the database's clock. It does not move during the
   * tick, so that a tick is a function of its inputs.
   */
  export function now(): TimestampMs;
  /**
   * Name of the plugin as it was deployed.
   */
  export function plugin(): string;
  /**
   * Name of the node that holds the lease.
   */
  export function node(): string;
  /**
   * Epoch of the lease: the fencing token of this term.
   */
  export function epoch(): bigint;
  /**
   * The plugin's configuration as JSON text: an object, `{}` if none was given.
   */
  export function config(): string;
  /**
   * CPU time that this tick may still use, in milliseconds.
   */
  export function cpuLeftMs(): bigint;
  /**
   * Wall time that this tick may still use, in milliseconds.
   */
  export function wallLeftMs(): bigint;
  /**
   * True once the tick should return soon: the node stops, the lease ends
   * or the budget is nearly used up. A tick that goes on is interrupted.
   */
  export function shouldStop(): boolean;
  /**
   * A seed for choices that should differ from tick to tick. The same tick
   * run again (a plan) gets the same seed.
   */
  export function seed(): bigint;
  export type TimestampMs = import('aedile:maintenance/types@0.1.0').TimestampMs;
  export type NodeId = import('aedile:maintenance/types@0.1.0').NodeId;
}
