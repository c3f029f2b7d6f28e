/// <reference path="./aedile-maintenance-types.d.ts" />
declare module 'aedile:maintenance/storage@0.1.0' {
  /**
   * Delete the bytes of destroyed objects. The host, not the plugin, decides
   * whether an object may go. One outcome an id, in the order given.
   */
  export { _delete as delete };
  function _delete(ids: BigUint64Array): Array<DeleteOutcome>;
  /**
   * Keys below `prefix` in the store's order, after the key `after`.
   */
  export function list(prefix: string, after: string | undefined, limit: number): Array<Stored>;
  /**
   * What the store has of an object; none if nothing.
   */
  export function head(id: ObjectId): Stored | undefined;
  /**
   * `length` bytes of an object from `offset` on; fewer where it ends.
   * None if there is no such object.
   */
  export function read(id: ObjectId, offset: bigint, length: number): Uint8Array | undefined;
  /**
   * Do the next portion of the host's sweep for orphans. The sweep is the
   * host's own: a plugin only drives it. It notes in the key-value map when
   * an orphan was first seen; nothing is deleted.
   */
  export function findOrphans(): Sweep;
  /**
   * Destructive: delete the bytes of orphans that a complete sweep of this
   * term found old enough. The host judges each again right before it goes.
   * One outcome an id, in the order given.
   */
  export function deleteOrphan(ids: BigUint64Array): Array<DeleteOutcome>;
  export type ObjectId = import('aedile:maintenance/types@0.1.0').ObjectId;
  export type TimestampMs = import('aedile:maintenance/types@0.1.0').TimestampMs;
  export type HostError = import('aedile:maintenance/types@0.1.0').HostError;
  /**
   * Why the host did not pass a delete on to the store.
   */
  export type Refusal = RefusalNotMarked | RefusalKeepData | RefusalConflict | RefusalParked | RefusalStoreSuspect;
  /**
   * The destroyed queue does not name the object.
   */
  export interface RefusalNotMarked {
    tag: 'not-marked',
  }
  /**
   * The mark keeps the data.
   */
  export interface RefusalKeepData {
    tag: 'keep-data',
  }
  /**
   * A conflict: the object is live, reserved, or linked by a composite.
   * The text says which.
   */
  export interface RefusalConflict {
    tag: 'conflict',
    val: string,
  }
  /**
   * The object is parked; the text says why.
   */
  export interface RefusalParked {
    tag: 'parked',
    val: string,
  }
  /**
   * A check on the store as a whole failed, as for the wrong bucket.
   * Nothing is deleted until an operator acts.
   */
  export interface RefusalStoreSuspect {
    tag: 'store-suspect',
    val: string,
  }
  /**
   * What became of one object's bytes.
   */
  export type DeleteOutcome = DeleteOutcomeDeleted | DeleteOutcomeAbsent | DeleteOutcomeThrottled | DeleteOutcomeRetry | DeleteOutcomeDenied | DeleteOutcomeRefused;
  /**
   * The store confirmed that they are gone.
   */
  export interface DeleteOutcomeDeleted {
    tag: 'deleted',
  }
  /**
   * They were not there.
   */
  export interface DeleteOutcomeAbsent {
    tag: 'absent',
  }
  /**
   * The store asks for less; try in a later tick.
   */
  export interface DeleteOutcomeThrottled {
    tag: 'throttled',
  }
  /**
   * It failed and may succeed later; the text says how.
   */
  export interface DeleteOutcomeRetry {
    tag: 'retry',
    val: string,
  }
  /**
   * The store refuses; the text says how.
   */
  export interface DeleteOutcomeDenied {
    tag: 'denied',
    val: string,
  }
  /**
   * The host refused; the store was not asked.
   */
  export interface DeleteOutcomeRefused {
    tag: 'refused',
    val: Refusal,
  }
  /**
   * Bytes in the store.
   */
  export interface Stored {
    /**
     * The key.
     */
    key: string,
    /**
     * The object whose key this is; none for anything else.
     */
    id?: ObjectId,
    /**
     * Size in bytes.
     */
    size: bigint,
    /**
     * When they were written, by the store's clock.
     */
    modified: TimestampMs,
  }
  /**
   * How far the host's sweep for orphans has come. An orphan is a data object
   * in the store that the catalog does not know and no composite links.
   */
  export interface Sweep {
    /**
     * Keys of any kind that were looked at.
     */
    listed: bigint,
    /**
     * Orphans among them, of whatever age.
     */
    candidates: bigint,
    /**
     * Their bytes.
     */
    bytes: bigint,
    /**
     * Whether every key was looked at. Until then nothing can be deleted.
     */
    complete: boolean,
    /**
     * Orphans that are old enough and were not given before in this sweep,
     * at most 1000. Empty: there are no more, and the next call begins a
     * new sweep if this one is complete.
     */
    ripe: BigUint64Array,
    /**
     * Why none is given although the sweep is complete; none if nothing
     * stands against it.
     */
    held?: string,
  }
}
