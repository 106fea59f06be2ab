"""redis-py, unmodified, against a running server: python redis_py.py PORT UNIX_SOCKET

Every kind of use once, by RESP2 and by RESP3, over TCP and over the Unix socket. The first
difference from Redis ends the program with an error.
"""

import asyncio
import sys
import threading

import redis
import redis.asyncio

PORT, SOCKET = int(sys.argv[1]), sys.argv[2]


def equal(found, expected):
    assert found == expected, f"{found!r}, not {expected!r}"


def pipelines(r):
    with r.pipeline() as p:  # MULTI, EXEC
        replies = p.set("a", 1).incr("a", 41).lpush("l", "x", "y").lrange("l", 0, -1).execute()
        equal(replies, [True, 42, 2, ["y", "x"]])
    with r.pipeline(transaction=False) as p:
        p.hset("h", mapping={"f": "1", "g": "2"}).hgetall("h")
        equal(p.execute(), [2, {"f": "1", "g": "2"}])
        replies = p.get("a").lpop("a").execute(raise_on_error=False)
        equal(replies[0], "42")
        assert isinstance(replies[1], redis.ResponseError) and "WRONGTYPE" in str(replies[1])
    with r.pipeline() as p:
        p.watch("a")
        r.set("a", "of another connection")
        p.multi()
        p.set("a", "lost")
        try:
            raise AssertionError(p.execute())
        except redis.WatchError:
            pass
    with r.lock("lock", timeout=10) as lock:
        assert lock.owned() and not r.lock("lock").acquire(blocking=False)


def types(r):
    equal(r.zadd("z", {"one": 1, "two": 2.5}), 2)
    equal(r.zscore("z", "two"), 2.5)
    pairs = r.zrange("z", 0, -1, withscores=True)
    equal([tuple(pair) for pair in pairs], [("one", 1.0), ("two", 2.5)])
    equal(r.sadd("s", "m", "n"), 2)
    equal(r.smembers("s"), {"m", "n"})
    cities = (13.361389, 38.115556, "Palermo", 15.087269, 37.502669, "Catania")
    equal(r.geoadd("geo", cities), 2)
    equal(round(r.geodist("geo", "Palermo", "Catania", "km")), 166)
    equal(r.pfadd("hll", "a", "b", "c"), 1)
    equal(r.pfcount("hll"), 3)
    equal(r.setbit("bits", 7, 1), 0)
    equal(r.bitcount("bits"), 1)
    equal(r.bitfield("field").set("u8", 0, 200).incrby("u8", 0, 100).execute(), [0, 44])
    assert r.set("mortal", "x", px=100_000) and 99 <= r.ttl("mortal") <= 100
    assert r.expiretime("mortal") > 1_000_000_000 and r.persist("mortal")
    copy = r.dump("z")
    equal(r.restore("z2", 0, copy), b"OK" if isinstance(copy, str) else "OK")
    equal(r.sort("l", alpha=True), ["x", "y"])
    equal(r.object("encoding", "a") in ("embstr", "raw"), True)
    equal(r.config_get("maxclients")["maxclients"].isdigit(), True)
    assert r.info()["redis_version"] and r.client_id() > 0 and r.command_count() > 200
    equal(r.acl_whoami(), "default")


def scans(r):
    r.mset({f"scan:{n}": n for n in range(1000)})
    equal(sorted(r.scan_iter("scan:*", count=100)), sorted(f"scan:{n}" for n in range(1000)))
    r.hset("wide", mapping={f"f{n}": n for n in range(500)})
    equal(len(dict(r.hscan_iter("wide", count=50))), 500)
    equal({member for member, _ in r.zscan_iter("z")}, {"one", "two"})
    equal(set(r.sscan_iter("s", match="m*")), {"m"})


def scripts(r):
    add = r.register_script("return redis.call('INCRBY', KEYS[1], ARGV[1]) + #ARGV")
    equal(add(keys=["sum"], args=[5, "x"]), 7)
    with r.pipeline() as p:
        add(keys=["sum"], args=[1], client=p)
        p.get("sum")
        equal(p.execute(), [7, "6"])
    r.function_load("#!lua name=lib\nredis.register_function('f', function(k, a) return a[1] end)", replace=True)
    equal(r.fcall("f", 0, "hello"), "hello")
    r.function_delete("lib")


def streams(r):
    first = r.xadd("stream", {"n": 1})
    r.xadd("stream", {"n": 2}, maxlen=100, approximate=True)
    equal(r.xlen("stream"), 2)
    equal(r.xgroup_create("stream", "group", id="0"), True)
    found = r.xreadgroup("group", "one", {"stream": ">"}, count=1)
    entries = found["stream"][0] if isinstance(found, dict) else found[0][1]
    equal(entries, [(first, {"n": "1"})])
    equal(r.xpending("stream", "group")["pending"], 1)
    claimed = r.xautoclaim("stream", "group", "two", min_idle_time=0)
    equal(claimed[1], [(first, {"n": "1"})])
    equal(r.xack("stream", "group", first), 1)
    equal(r.xinfo_stream("stream")["groups"], 1)
    equal(len(r.xrange("stream")), 2)


def blocking(r):
    later = threading.Timer(0.1, lambda: r.rpush("queue", "job"))
    later.start()
    equal(tuple(r.blpop(["none", "queue"], timeout=30)), ("queue", "job"))
    equal(r.blpop(["queue"], timeout=0.05), None)
    later = threading.Timer(0.1, lambda: r.zadd("prio", {"urgent": 1}))
    later.start()
    equal(tuple(r.bzpopmin(["prio"], timeout=30)), ("prio", "urgent", 1.0))
    later = threading.Timer(0.1, lambda: r.xadd("stream", {"n": 3}))
    later.start()
    found = r.xread({"stream": "$"}, block=30_000)
    assert "n" in str(found) and "3" in str(found), found


def messages(r):
    p = r.pubsub(ignore_subscribe_messages=True)
    p.subscribe("news")
    p.psubscribe("n*")
    p.ssubscribe("shard")
    equal([p.get_message(timeout=30) for _ in range(3)], [None] * 3)
    equal(r.publish("news", "hello"), 2)
    got = [p.get_message(timeout=30) for _ in range(2)]
    equal({(m["type"], m["channel"], m["data"]) for m in got}, {(t, "news", "hello") for t in ("message", "pmessage")})
    equal(r.spublish("shard", "s"), 1)
    equal(p.get_sharded_message(timeout=30)["data"], "s")
    p.close()


def tracking():
    """The client's own cache is for servers that call themselves 7.4 or newer: its commands here."""
    told = []
    r = redis.Redis(port=PORT, protocol=3, decode_responses=True, single_connection_client=True)
    other = redis.Redis(port=PORT)
    r.connection._parser.set_invalidation_push_handler(told.append)
    r.execute_command("CLIENT", "TRACKING", "ON")
    other.set("tracked", 1)
    equal(r.get("tracked"), "1")
    other.set("tracked", 2)
    for _ in range(100):
        r.ping()
        if told:
            break
    assert "tracked" in str(told), told


async def with_asyncio():
    r = redis.asyncio.Redis(port=PORT, decode_responses=True)
    async with r.pipeline() as p:
        equal(await p.set("async", "1").incr("async").execute(), [True, 2])
    waiting = asyncio.create_task(r.blpop("later", timeout=30))
    await asyncio.sleep(0.05)
    await r.rpush("later", "now")
    equal(tuple(await waiting), ("later", "now"))
    equal(sorted(await asyncio.gather(*(r.incr("many") for _ in range(100)))), list(range(1, 101)))
    await r.aclose()


for protocol in (2, 3):
    for place in ({"port": PORT}, {"unix_socket_path": SOCKET}):
        client = redis.Redis(**place, protocol=protocol, decode_responses=True)
        client.flushall()
        for use in (pipelines, types, scans, scripts, streams, blocking, messages):
            use(client)
        client.close()
tracking()
asyncio.run(with_asyncio())
print(f"redis-py {redis.__version__}: every use")
