// ioredis, unmodified, against a running server: node ioredis.js PORT UNIX_SOCKET
//
// Every kind of use once, over TCP and over the Unix socket. The first difference from Redis ends
// the program with an error.

const assert = require("node:assert/strict");
const Redis = require("ioredis");

const [port, path] = [Number(process.argv[2]), process.argv[3]];

async function pipelines(r) {
  const replies = await r.multi().set("a", 1).incrby("a", 41).lpush("l", "x", "y").lrange("l", 0, -1).exec();
  assert.deepEqual(replies, [[null, "OK"], [null, 42], [null, 2], [null, ["y", "x"]]]);
  const mixed = await r.pipeline().hset("h", { f: "1", g: "2" }).hgetall("h").lpop("a").exec();
  assert.deepEqual(mixed.slice(0, 2), [[null, 2], [null, { f: "1", g: "2" }]]);
  assert.match(mixed[2][0].message, /WRONGTYPE/);
  await assert.rejects(r.multi().set("a").exec(), /EXECABORT/);
  const other = r.duplicate();
  await r.watch("a");
  await other.set("a", "of another connection");
  assert.equal(await r.multi().set("a", "lost").exec(), null);
  other.disconnect();
}

async function scans(r) {
  const keys = Array.from({ length: 1000 }, (_, n) => `scan:${n}`);
  await r.mset(Object.fromEntries(keys.map((key) => [key, "v"])));
  const found = [];
  for await (const page of r.scanStream({ match: "scan:*", count: 100 })) found.push(...page);
  assert.deepEqual(found.sort(), keys.sort());
  await r.zadd("z", 1, "one", 2.5, "two");
  assert.deepEqual(await r.zrange("z", 0, -1, "WITHSCORES"), ["one", "1", "two", "2.5"]);
  assert.deepEqual((await r.zscan("z", 0))[1], ["one", "1", "two", "2.5"]);
  const bytes = Buffer.from([0, 255, 13, 10, 128]);
  await r.set("bytes", bytes);
  assert.deepEqual(await r.getBuffer("bytes"), bytes);
}

async function scripts(r) {
  r.defineCommand("add", { numberOfKeys: 1, lua: "return redis.call('INCRBY', KEYS[1], ARGV[1]) + #ARGV" });
  assert.equal(await r.add("sum", 5, "x"), 7);
  assert.deepEqual(await r.pipeline().add("sum", 1).get("sum").exec(), [[null, 7], [null, "6"]]);
}

async function streams(r) {
  const first = await r.xadd("stream", "*", "n", "1");
  await r.xadd("stream", "MAXLEN", "~", 100, "*", "n", "2");
  assert.equal(await r.xgroup("CREATE", "stream", "group", "0"), "OK");
  const read = await r.xreadgroup("GROUP", "group", "one", "COUNT", 1, "STREAMS", "stream", ">");
  assert.deepEqual(read, [["stream", [[first, ["n", "1"]]]]]);
  assert.equal((await r.xpending("stream", "group"))[0], 1);
  assert.deepEqual((await r.xautoclaim("stream", "group", "two", 0, "0"))[1], [[first, ["n", "1"]]]);
  assert.equal(await r.xack("stream", "group", first), 1);
}

async function blocking(r) {
  const other = r.duplicate();
  let popped = other.blpop("none", "queue", 30);
  await r.rpush("queue", "job");
  assert.deepEqual(await popped, ["queue", "job"]);
  assert.equal(await other.blpop("queue", 0.05), null);
  popped = other.bzpopmin("prio", 30);
  await r.zadd("prio", 1, "urgent");
  assert.deepEqual(await popped, ["prio", "urgent", "1"]);
  const read = other.xread("BLOCK", 30000, "STREAMS", "stream", "$");
  await new Promise((done) => setTimeout(done, 100)); // so that `$` is before the entry
  const id = await r.xadd("stream", "*", "n", "3");
  assert.deepEqual(await read, [["stream", [[id, ["n", "3"]]]]]);
  other.disconnect();
}

async function messages(r) {
  const listener = r.duplicate();
  const got = [];
  const all = new Promise((done) => {
    const note = (...words) => got.push(words.join(" ")) === 3 && done();
    listener.on("message", (channel, text) => note("message", channel, text));
    listener.on("pmessage", (pattern, channel, text) => note("pmessage", pattern, channel, text));
    listener.on("smessage", (channel, text) => note("smessage", channel, text));
  });
  assert.equal(await listener.subscribe("news"), 1);
  assert.equal(await listener.psubscribe("n*"), 2);
  await listener.ssubscribe("shard");
  assert.equal(await r.publish("news", "hello"), 2);
  assert.equal(await r.spublish("shard", "s"), 1);
  await all;
  assert.deepEqual(got.sort(), ["message news hello", "pmessage n* news hello", "smessage shard s"]);
  listener.disconnect();
}

async function main() {
  for (const place of [{ port }, { path }]) {
    const r = new Redis(place);
    await r.flushall();
    for (const use of [pipelines, scans, scripts, streams, blocking, messages]) await use(r);
    await r.quit();
  }
  const r = new Redis({ port, keyPrefix: "p:", db: 3, enableAutoPipelining: true });
  await Promise.all(Array.from({ length: 100 }, (_, n) => r.set(`k${n}`, n)));
  assert.deepEqual(await Promise.all([0, 50, 99].map((n) => r.get(`k${n}`))), ["0", "50", "99"]);
  r.disconnect();
  console.log(`ioredis ${require("ioredis/package.json").version}: every use`);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
