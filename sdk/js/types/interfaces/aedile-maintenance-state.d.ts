/// <reference path="./aedile-maintenance-types.d.ts" />
declare module 'aedile:maintenance/state@0.1.0' {
  /**
   * Index of the last log row that the view contains.
   */
  export function appliedIndex(): LogIndex;
  /**
   * Sizes of the state. Costs nothing.
   */
  export function sizes(): Counts;
  /**
   * Reservations that have lapsed at the tick's time, by deadline and id.
   * Not paged by a cursor: an expiry removes them all.
   */
  export function lapsedReservations(limit: number): Array<Reservation>;
  /**
   * How many reservations have lapsed at the tick's time, counted up to `limit`.
   */
  export function lapsedCount(limit: number): number;
  /**
   * The destroyed queue in order, without what is parked or backed off.
   */
  export function destroyed(after: bigint | undefined, limit: number): Array<Mark>;
  /**
   * Objects by id.
   */
  export function objects(after: ObjectId | undefined, limit: number): Array<Object>;
  /**
   * Ids of objects in order: thirty times cheaper than the records.
   */
  export function objectIds(after: ObjectId | undefined, limit: number): BigUint64Array;
  /**
   * One object.
   */
  export function getObject(id: ObjectId): Object | undefined;
  /**
   * Objects of one stream, by first offset and id.
   */
  export function streamObjects(id: StreamId, after: StreamCursor | undefined, limit: number): Array<StreamObject>;
  /**
   * Streams by id.
   */
  export function streams(after: StreamId | undefined, limit: number): Array<Stream>;
  /**
   * One stream.
   */
  export function getStream(id: StreamId): Stream | undefined;
  /**
   * Registered nodes by id.
   */
  export function nodes(after: NodeId | undefined, limit: number): Array<Node>;
  /**
   * The value of a key. Any key may be read.
   */
  export function kvGet(key: string): Uint8Array | undefined;
  /**
   * Entries whose key begins with `prefix`, by key bytes. A page ends early
   * when its bytes reach the limit of a host call.
   */
  export function kvScan(prefix: string, after: string | undefined, limit: number): Array<KvEntry>;
  /**
   * Keys alone, as `kv-scan`.
   */
  export function kvKeys(prefix: string, after: string | undefined, limit: number): Array<string>;
  export type ObjectId = import('aedile:maintenance/types@0.1.0').ObjectId;
  export type StreamId = import('aedile:maintenance/types@0.1.0').StreamId;
  export type NodeId = import('aedile:maintenance/types@0.1.0').NodeId;
  export type LogIndex = import('aedile:maintenance/types@0.1.0').LogIndex;
  export type TimestampMs = import('aedile:maintenance/types@0.1.0').TimestampMs;
  export type Operation = import('aedile:maintenance/types@0.1.0').Operation;
  /**
   * A reservation: an object id given out for an upload.
   */
  export interface Reservation {
    /**
     * The reserved id.
     */
    id: ObjectId,
    /**
     * When it lapses.
     */
    deadline: TimestampMs,
  }
  /**
   * An entry of the destroyed queue.
   */
  export interface Mark {
    /**
     * Place in the queue; the key of its pages.
     */
    seq: bigint,
    /**
     * The destroyed object.
     */
    id: ObjectId,
    /**
     * What is to happen to its bytes.
     */
    operation: Operation,
  }
  /**
   * Whether an object belongs to one stream or to several.
   * # Variants
   * 
   * ## `"stream-set"`
   * 
   * Ranges of several streams.
   * ## `"stream"`
   * 
   * One range of one stream.
   */
  export type ObjectKind = 'stream-set' | 'stream';
  /**
   * An object of the catalog.
   */
  export interface Object {
    /**
     * Its id.
     */
    id: ObjectId,
    /**
     * Whether it belongs to one stream or to several.
     */
    kind: ObjectKind,
    /**
     * Size in bytes as committed; for a composite, of what it links.
     */
    size: bigint,
    /**
     * Whether it holds no data of its own but links other objects.
     */
    composite: boolean,
    /**
     * When it was committed.
     */
    committed: TimestampMs,
    /**
     * When its oldest data was committed.
     */
    data: TimestampMs,
  }
  /**
   * An object of one stream.
   */
  export interface StreamObject {
    /**
     * Its id.
     */
    id: ObjectId,
    /**
     * First offset.
     */
    startOffset: bigint,
    /**
     * Offset after the last.
     */
    endOffset: bigint,
    /**
     * Size in bytes as committed.
     */
    size: bigint,
    /**
     * When it was committed.
     */
    committed: TimestampMs,
  }
  /**
   * Where a page of stream objects goes on.
   */
  export interface StreamCursor {
    /**
     * First offset of the last object seen.
     */
    startOffset: bigint,
    /**
     * Id of the last object seen.
     */
    id: ObjectId,
  }
  /**
   * A stream.
   */
  export interface Stream {
    /**
     * Its id.
     */
    id: StreamId,
    /**
     * Its epoch; -1 if it was never opened.
     */
    epoch: bigint,
    /**
     * First offset that is still there.
     */
    startOffset: bigint,
    /**
     * Offset after the last.
     */
    endOffset: bigint,
    /**
     * Whether a node has it open.
     */
    opened: boolean,
    /**
     * The node that owns it; -1 if none.
     */
    node: NodeId,
  }
  /**
   * A registered node.
   */
  export interface Node {
    /**
     * Its id.
     */
    id: NodeId,
    /**
     * Its epoch: when it started, in milliseconds, unless it was set.
     */
    epoch: bigint,
    /**
     * Its address for clients; empty if it gave none.
     */
    httpAddress: string,
    /**
     * How many streams it wants, relative to other nodes.
     */
    slots: number,
  }
  /**
   * An entry of the replicated key-value map.
   */
  export interface KvEntry {
    /**
     * The key.
     */
    key: string,
    /**
     * The value.
     */
    value: Uint8Array,
  }
  /**
   * Sizes of the state.
   */
  export interface Counts {
    /**
     * Streams.
     */
    streams: bigint,
    /**
     * Nodes.
     */
    nodes: bigint,
    /**
     * Objects of both kinds.
     */
    objects: bigint,
    /**
     * Reservations, lapsed or not.
     */
    reservations: bigint,
    /**
     * Entries of the destroyed queue, parked or not.
     */
    destroyed: bigint,
    /**
     * Entries of the key-value map.
     */
    kv: bigint,
  }
}
