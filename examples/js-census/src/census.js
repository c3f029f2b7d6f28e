// What is known of the streams so far.

/** The largest sum that is kept: what a u64 of the contract holds. */
const MOST = 2n ** 64n - 1n;

const plus = (one, other) => (one > MOST - other ? MOST : one + other);

/** The count: begin with how many streams are to be named. */
export class Census {
  streams = 0n;
  open = 0n;
  records = 0n;
  /** The largest streams: most records first, lowest id first among equals. */
  top = [];

  constructor(most) {
    this.most = most;
  }

  /** Count one more stream. */
  add({ id, startOffset, endOffset, opened }) {
    const records = endOffset > startOffset ? endOffset - startOffset : 0n;
    this.streams += 1n;
    this.open += opened ? 1n : 0n;
    this.records = plus(this.records, records);
    this.rank({ id, records });
  }

  /** Put a stream in its place among the largest. */
  rank(entry) {
    const larger = (other) =>
      other.records > entry.records || (other.records === entry.records && other.id < entry.id);
    const at = this.top.findLastIndex(larger) + 1;
    this.top.splice(at, 0, entry);
    this.top.length = Math.min(this.top.length, this.most);
  }

  /** The count as text, a line for each figure. */
  toString() {
    const top = this.top.map(({ id, records }) => `top ${id} ${records}\n`);
    return `streams ${this.streams}\nopen ${this.open}\nrecords ${this.records}\n${top.join('')}`;
  }

  /**
   * Read back an unfinished count: `after` and the id of the last stream, then
   * what toString gives. Undefined if the text is not one.
   */
  static read(text, most) {
    const whole = /^after (\d+)\nstreams (\d+)\nopen (\d+)\nrecords (\d+)\n((?:top \d+ \d+\n)*)$/;
    const found = whole.exec(text);
    if (!found || text.match(/\d+/g).some((number) => BigInt(number) > MOST)) return undefined;
    const [after, streams, open, records] = found.slice(1, 5).map(BigInt);
    const census = Object.assign(new Census(most), { streams, open, records });
    for (const [, id, held] of found[5].matchAll(/top (\d+) (\d+)\n/g)) {
      census.rank({ id: BigInt(id), records: BigInt(held) });
    }
    return { census, after };
  }
}
