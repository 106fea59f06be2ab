// go-redis, unmodified, against a running server: go run . PORT UNIX_SOCKET
//
// Every kind of use once, by RESP2 and by RESP3, over TCP and over the Unix socket. The first
// difference from Redis ends the program with an error.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"sort"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

var ctx = context.Background()

func equal(found, expected any) {
	if !reflect.DeepEqual(found, expected) {
		panic(fmt.Sprintf("%#v, not %#v", found, expected))
	}
}

// must returns a reply that comes without an error.
func must[T any](reply T, err error) T {
	if err != nil {
		panic(err)
	}
	return reply
}

func pipelines(r *redis.Client) {
	var sum *redis.IntCmd
	var list *redis.StringSliceCmd
	must(r.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Set(ctx, "a", 1, 0)
		sum = p.IncrBy(ctx, "a", 41)
		p.LPush(ctx, "l", "x", "y")
		list = p.LRange(ctx, "l", 0, -1)
		return nil
	}))
	equal(sum.Val(), int64(42))
	equal(list.Val(), []string{"y", "x"})
	cmds, err := r.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.HSet(ctx, "h", "f", "1", "g", "2")
		p.HGetAll(ctx, "h")
		p.LPop(ctx, "a")
		return nil
	})
	equal(cmds[1].(*redis.MapStringStringCmd).Val(), map[string]string{"f": "1", "g": "2"})
	if err == nil || !redis.HasErrorPrefix(err, "WRONGTYPE") {
		panic(err)
	}
	// Compare and swap by many at once: each try that fails is repeated.
	var group sync.WaitGroup
	for range 8 {
		group.Add(1)
		go func() {
			defer group.Done()
			for {
				err := r.Watch(ctx, func(tx *redis.Tx) error {
					n, err := tx.Get(ctx, "n").Int()
					if err != nil && !errors.Is(err, redis.Nil) {
						return err
					}
					_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
						p.Set(ctx, "n", n+1, 0)
						return nil
					})
					return err
				}, "n")
				if err == nil {
					return
				}
				if !errors.Is(err, redis.TxFailedErr) {
					panic(err)
				}
			}
		}()
	}
	group.Wait()
	equal(must(r.Get(ctx, "n").Int()), 8)
}

func scans(r *redis.Client) {
	expected := []string{}
	must(r.Pipelined(ctx, func(p redis.Pipeliner) error {
		for n := range 1000 {
			key := fmt.Sprintf("scan:%03d", n)
			expected = append(expected, key)
			p.Set(ctx, key, n, time.Hour)
		}
		return nil
	}))
	found := []string{}
	for keys := r.Scan(ctx, 0, "scan:*", 100).Iterator(); keys.Next(ctx); {
		found = append(found, keys.Val())
	}
	sort.Strings(found)
	equal(found, expected)
	must(r.ZAdd(ctx, "z", redis.Z{Score: 1, Member: "one"}, redis.Z{Score: 2.5, Member: "two"}).Result())
	pairs := must(r.ZRangeArgsWithScores(ctx, redis.ZRangeArgs{Key: "z", Start: 0, Stop: -1, Rev: true}).Result())
	equal(pairs, []redis.Z{{Score: 2.5, Member: "two"}, {Score: 1, Member: "one"}})
	equal(must(r.GeoAdd(ctx, "geo", &redis.GeoLocation{Name: "Palermo", Longitude: 13.361389, Latitude: 38.115556}).Result()), int64(1))
}

func scripts(r *redis.Client) {
	add := redis.NewScript("return redis.call('INCRBY', KEYS[1], ARGV[1]) + #ARGV")
	equal(must(add.Run(ctx, r, []string{"sum"}, 5, "x").Int()), 7)
	must(r.ScriptFlush(ctx).Result())
	equal(must(add.Run(ctx, r, []string{"sum"}, 1).Int()), 7)
	must(r.FunctionLoadReplace(ctx, "#!lua name=lib\nredis.register_function('f', function(k, a) return a[1] end)").Result())
	equal(must(r.FCall(ctx, "f", nil, "hello").Text()), "hello")
}

func streams(r *redis.Client) {
	first := must(r.XAdd(ctx, &redis.XAddArgs{Stream: "stream", Values: []string{"n", "1"}}).Result())
	must(r.XAdd(ctx, &redis.XAddArgs{Stream: "stream", MaxLen: 100, Approx: true, Values: []string{"n", "2"}}).Result())
	must(r.XGroupCreate(ctx, "stream", "group", "0").Result())
	read := must(r.XReadGroup(ctx, &redis.XReadGroupArgs{Group: "group", Consumer: "one", Streams: []string{"stream", ">"}, Count: 1}).Result())
	equal(read[0].Messages[0].Values, map[string]any{"n": "1"})
	equal(must(r.XPending(ctx, "stream", "group").Result()).Consumers, map[string]int64{"one": 1})
	claimed, _, err := r.XAutoClaim(ctx, &redis.XAutoClaimArgs{Stream: "stream", Group: "group", Consumer: "two", Start: "0"}).Result()
	equal(must(claimed, err)[0].ID, first)
	equal(must(r.XAck(ctx, "stream", "group", first).Result()), int64(1))
	equal(must(r.XInfoStreamFull(ctx, "stream", 10).Result()).Length, int64(2))
}

func blocking(r *redis.Client) {
	later := func(call func()) { time.AfterFunc(100*time.Millisecond, call) }
	later(func() { r.RPush(ctx, "queue", "job") })
	equal(must(r.BLPop(ctx, 30*time.Second, "none", "queue").Result()), []string{"queue", "job"})
	_, err := r.BLPop(ctx, time.Second, "queue").Result()
	equal(err, redis.Nil)
	later(func() { r.ZAdd(ctx, "prio", redis.Z{Score: 1, Member: "urgent"}) })
	equal(must(r.BZPopMin(ctx, 30*time.Second, "prio").Result()).Member, "urgent")
	later(func() { r.XAdd(ctx, &redis.XAddArgs{Stream: "stream", Values: []string{"n", "3"}}) })
	read := must(r.XRead(ctx, &redis.XReadArgs{Streams: []string{"stream", "$"}, Block: 30 * time.Second}).Result())
	equal(read[0].Messages[0].Values, map[string]any{"n": "3"})
}

func messages(r *redis.Client) {
	p := r.Subscribe(ctx, "news")
	defer p.Close()
	must(p.Receive(ctx))
	if err := p.PSubscribe(ctx, "n*"); err != nil {
		panic(err)
	}
	must(p.Receive(ctx))
	equal(must(r.Publish(ctx, "news", "hello").Result()), int64(2))
	for range 2 {
		equal(must(p.ReceiveMessage(ctx)).Payload, "hello")
	}
	shard := r.SSubscribe(ctx, "shard")
	defer shard.Close()
	must(shard.Receive(ctx))
	equal(must(r.SPublish(ctx, "shard", "s").Result()), int64(1))
	equal(must(shard.ReceiveMessage(ctx)).Payload, "s")
}

func main() {
	for _, protocol := range []int{2, 3} {
		for _, place := range [][2]string{{"tcp", "127.0.0.1:" + os.Args[1]}, {"unix", os.Args[2]}} {
			r := redis.NewClient(&redis.Options{Network: place[0], Addr: place[1], Protocol: protocol})
			must(r.FlushAll(ctx).Result())
			for _, use := range []func(*redis.Client){pipelines, scans, scripts, streams, blocking, messages} {
				use(r)
			}
			r.Close()
		}
	}
	fmt.Printf("go-redis %s: every use\n", redis.Version())
}
