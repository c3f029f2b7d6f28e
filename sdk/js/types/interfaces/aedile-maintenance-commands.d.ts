/// <reference path="./aedile-maintenance-types.d.ts" />
declare module 'aedile:maintenance/commands@0.1.0' {
  /**
   * Expire every reservation that has lapsed. The host fills in the time, by
   * the database's clock: no plugin and no node clock decides what has lapsed.
   */
  export function expireReservations(): Answer;
  /**
   * Remove marks from the destroyed queue. The host rejects an id whose bytes
   * must go and were not deleted in this term.
   */
  export function cleanDestroyed(ids: BigUint64Array): Array<Answer>;
  /**
   * Store values. Keys must lie below `aedile/kv/<plugin>/`, or below a
   * prefix that the operator granted.
   */
  export function putKv(entries: Array<Put>): Array<Answer>;
  /**
   * Store values whose key is absent: `redundant` if it is not.
   */
  export function putKvIfAbsent(entries: Array<Put>): Array<Answer>;
  /**
   * Remove keys. `redundant` if a key was absent. Prefixes as for `put-kv`.
   */
  export function deleteKv(keys: Array<string>): Array<Answer>;
  /**
   * Destructive: move the start of streams forward. What lies below can no
   * longer be read.
   */
  export function trimStream(trims: Array<Trim>): Array<Answer>;
  /**
   * Destructive: delete closed streams with all of their stream objects.
   */
  export function deleteStream(streams: Array<StreamAt>): Array<Answer>;
  /**
   * Destructive: unindex objects that lie wholly below the start of their
   * stream, and mark them destroyed. The host rejects any other object.
   */
  export function compactAway(compactions: Array<Compaction>): Array<Answer>;
  /**
   * Destructive: ask nodes to hand streams over.
   */
  export function transferStream(transfers: Array<Transfer>): Array<Answer>;
  export type ObjectId = import('aedile:maintenance/types@0.1.0').ObjectId;
  export type StreamId = import('aedile:maintenance/types@0.1.0').StreamId;
  export type NodeId = import('aedile:maintenance/types@0.1.0').NodeId;
  export type Answer = import('aedile:maintenance/types@0.1.0').Answer;
  export type HostError = import('aedile:maintenance/types@0.1.0').HostError;
  /**
   * A key and its value.
   */
  export interface Put {
    /**
     * The key, below the plugin's own prefix or a granted one.
     */
    key: string,
    /**
     * The value.
     */
    value: Uint8Array,
  }
  /**
   * Where a stream is to begin.
   */
  export interface Trim {
    /**
     * The stream; it must be open.
     */
    id: StreamId,
    /**
     * Its epoch as the plugin saw it.
     */
    epoch: bigint,
    /**
     * The new first offset.
     */
    startOffset: bigint,
  }
  /**
   * A stream at an epoch.
   */
  export interface StreamAt {
    /**
     * The stream.
     */
    id: StreamId,
    /**
     * Its epoch as the plugin saw it.
     */
    epoch: bigint,
  }
  /**
   * Objects that are to leave the catalog of one stream.
   */
  export interface Compaction {
    /**
     * The stream.
     */
    id: StreamId,
    /**
     * Its epoch as the plugin saw it.
     */
    epoch: bigint,
    /**
     * Objects of that stream which end at or below its first offset.
     */
    objects: BigUint64Array,
  }
  /**
   * A stream and where it is to go.
   */
  export interface Transfer {
    /**
     * The stream; it must be open on `source`.
     */
    id: StreamId,
    /**
     * The node that has it.
     */
    source: NodeId,
    /**
     * The node that is to have it.
     */
    target: NodeId,
  }
}
