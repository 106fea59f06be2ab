import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;
import redis.clients.jedis.*;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.params.*;
import redis.clients.jedis.resps.*;

/**
 * Jedis, unmodified, against a running server: java Uses PORT
 *
 * <p>Every kind of use once, by RESP2 and by RESP3. The first difference from Redis ends the program
 * with an error.
 */
public class Uses {
  static int port;

  static void equal(Object found, Object expected) {
    if (!Objects.equals(found, expected)) throw new AssertionError(found + ", not " + expected);
  }

  static void pipelines(JedisPooled r) {
    try (AbstractTransaction t = r.multi()) {
      t.set("a", "1");
      Response<Long> sum = t.incrBy("a", 41);
      t.lpush("l", "x", "y");
      Response<List<String>> list = t.lrange("l", 0, -1);
      equal(t.exec().size(), 4);
      equal(sum.get(), 42L);
      equal(list.get(), List.of("y", "x"));
    }
    try (Pipeline p = (Pipeline) r.pipelined()) {
      p.hset("h", Map.of("f", "1", "g", "2"));
      Response<Map<String, String>> map = p.hgetAll("h");
      Response<String> wrong = p.lpop("a");
      p.sync();
      equal(map.get(), Map.of("f", "1", "g", "2"));
      try {
        throw new AssertionError(wrong.get());
      } catch (JedisDataException error) {
        equal(error.getMessage().startsWith("WRONGTYPE"), true);
      }
    }
    try (Jedis one = new Jedis("127.0.0.1", port)) {
      one.watch("a");
      r.set("a", "of another connection");
      Transaction t = one.multi();
      t.set("a", "lost");
      equal(t.exec(), null);
    }
  }

  static void scans(JedisPooled r) {
    Set<String> expected = new TreeSet<>();
    for (int n = 0; n < 1000; n++) {
      r.set("scan:" + n, "v", SetParams.setParams().ex(1000));
      expected.add("scan:" + n);
    }
    Set<String> found = new TreeSet<>();
    String cursor = ScanParams.SCAN_POINTER_START;
    do {
      ScanResult<String> page = r.scan(cursor, new ScanParams().match("scan:*").count(100));
      found.addAll(page.getResult());
      cursor = page.getCursor();
    } while (!cursor.equals("0"));
    equal(found, expected);
    equal(r.zadd("z", Map.of("one", 1.0, "two", 2.5)), 2L);
    equal(r.zrangeWithScores("z", 0, -1), List.of(new Tuple("one", 1.0), new Tuple("two", 2.5)));
    byte[] bytes = {0, -1, 13, 10, -128};
    r.set("bytes".getBytes(StandardCharsets.UTF_8), bytes);
    equal(Arrays.equals(r.get("bytes".getBytes(StandardCharsets.UTF_8)), bytes), true);
    byte[] copy = r.dump("z");
    equal(r.restore("z2", 0, copy), "OK");
  }

  static void scripts(JedisPooled r) {
    String add = "return redis.call('INCRBY', KEYS[1], ARGV[1]) + #ARGV";
    equal(r.eval(add, List.of("sum"), List.of("5", "x")), 7L);
    String sha = r.scriptLoad(add, "sum");
    equal(r.evalsha(sha, List.of("sum"), List.of("1")), 7L);
    r.functionLoadReplace("#!lua name=lib\nredis.register_function('f', function(k, a) return a[1] end)");
    equal(r.fcall("f", List.of(), List.of("hello")), "hello");
  }

  static void streams(JedisPooled r) {
    StreamEntryID first = r.xadd("stream", StreamEntryID.NEW_ENTRY, Map.of("n", "1"));
    r.xadd("stream", Map.of("n", "2"), XAddParams.xAddParams().maxLen(100).approximateTrimming());
    equal(r.xgroupCreate("stream", "group", new StreamEntryID("0-0"), false), "OK");
    var read = r.xreadGroup("group", "one", XReadGroupParams.xReadGroupParams().count(1),
        Map.of("stream", StreamEntryID.XREADGROUP_UNDELIVERED_ENTRY));
    equal(read.get(0).getValue().get(0).getFields(), Map.of("n", "1"));
    equal(r.xpending("stream", "group").getTotal(), 1L);
    var claimed = r.xautoclaim("stream", "group", "two", 0, new StreamEntryID("0-0"), new XAutoClaimParams());
    equal(claimed.getValue().get(0).getID(), first);
    equal(r.xack("stream", "group", first), 1L);
    equal(r.xinfoStream("stream").getLength(), 2L);
  }

  static void blocking(JedisPooled r) {
    ScheduledExecutorService later = Executors.newSingleThreadScheduledExecutor();
    later.schedule(() -> r.rpush("queue", "job"), 100, TimeUnit.MILLISECONDS);
    equal(r.blpop(30, "none", "queue"), List.of("queue", "job"));
    equal(r.blpop(0.05, "queue"), null);
    later.schedule(() -> r.zadd("prio", 1, "urgent"), 100, TimeUnit.MILLISECONDS);
    equal(r.bzpopmin(30, "prio").getValue(), new Tuple("urgent", 1.0));
    later.schedule(() -> r.xadd("stream", StreamEntryID.NEW_ENTRY, Map.of("n", "3")), 100, TimeUnit.MILLISECONDS);
    var read = r.xread(XReadParams.xReadParams().block(30_000), Map.of("stream", StreamEntryID.XGROUP_LAST_ENTRY));
    equal(read.get(0).getValue().get(0).getFields(), Map.of("n", "3"));
    later.shutdown();
  }

  static void messages(JedisPooled r) throws Exception {
    BlockingQueue<String> got = new LinkedBlockingQueue<>();
    JedisPubSub listener = new JedisPubSub() {
      @Override public void onMessage(String channel, String text) { got.add("message " + channel + " " + text); }
      @Override public void onPMessage(String pattern, String channel, String text) { got.add("pmessage " + channel + " " + text); }
      @Override public void onSubscribe(String channel, int count) { got.add("subscribed"); }
      @Override public void onPSubscribe(String pattern, int count) { got.add("subscribed"); }
    };
    Thread thread = new Thread(() -> r.subscribe(listener, "news"));
    thread.start();
    equal(got.poll(30, TimeUnit.SECONDS), "subscribed");
    listener.psubscribe("n*");
    equal(got.poll(30, TimeUnit.SECONDS), "subscribed");
    equal(r.publish("news", "hello"), 2L);
    Set<String> texts = new TreeSet<>(List.of(got.poll(30, TimeUnit.SECONDS), got.poll(30, TimeUnit.SECONDS)));
    equal(texts, new TreeSet<>(List.of("message news hello", "pmessage news hello")));
    listener.unsubscribe();
    listener.punsubscribe();
    thread.join();
  }

  public static void main(String[] args) throws Exception {
    port = Integer.parseInt(args[0]);
    for (RedisProtocol protocol : RedisProtocol.values()) {
      var config = DefaultJedisClientConfig.builder().protocol(protocol).build();
      try (JedisPooled r = new JedisPooled(new HostAndPort("127.0.0.1", port), config)) {
        r.flushAll();
        pipelines(r);
        scans(r);
        scripts(r);
        streams(r);
        blocking(r);
        messages(r);
      }
    }
    System.out.println("jedis: every use");
  }
}
