declare module 'aedile:maintenance/types@0.1.0' {
  /**
   * Number of an object in the catalog. Never reused by a correct node.
   */
  export type ObjectId = bigint;
  /**
   * Number of a stream.
   */
  export type StreamId = bigint;
  /**
   * Number of a node. Negative numbers are valid.
   */
  export type NodeId = number;
  /**
   * Index of a row of the metadata log. The first row has index 1.
   */
  export type LogIndex = bigint;
  /**
   * Milliseconds since the Unix epoch.
   */
  export type TimestampMs = bigint;
  /**
   * What is to happen to the bytes of a destroyed object.
   * # Variants
   * 
   * ## `"delete"`
   * 
   * The object's bytes go.
   * ## `"keep-data"`
   * 
   * The catalog forgets the object, its bytes stay: a composite reads them.
   * ## `"deep-delete"`
   * 
   * The object is a composite: the objects it links go, then its own bytes.
   */
  export type Operation = 'delete' | 'keep-data' | 'deep-delete';
  /**
   * What became of one proposed command, or of one item of it.
   */
  export type Answer = AnswerApplied | AnswerRedundant | AnswerRejected | AnswerUnknown;
  /**
   * It changed the state.
   */
  export interface AnswerApplied {
    tag: 'applied',
  }
  /**
   * It was applied and changed nothing: somebody else did it before.
   */
  export interface AnswerRedundant {
    tag: 'redundant',
  }
  /**
   * The host or the log refused it; the text says which rule.
   */
  export interface AnswerRejected {
    tag: 'rejected',
    val: string,
  }
  /**
   * The reply was lost and a snapshot covers the place where it would
   * stand. An author does nothing: the next tick sees the state.
   */
  export interface AnswerUnknown {
    tag: 'unknown',
  }
  /**
   * A failure of a host function that the plugin may handle. A lost lease
   * or an exceeded limit is not one of these: it ends the tick.
   */
  export type HostError = HostErrorInvalidArgument | HostErrorUnavailable;
  /**
   * An argument is out of its range; the text says which and the range.
   */
  export interface HostErrorInvalidArgument {
    tag: 'invalid-argument',
    val: string,
  }
  /**
   * The host cannot serve the call now; the next tick may succeed.
   */
  export interface HostErrorUnavailable {
    tag: 'unavailable',
    val: string,
  }
}
