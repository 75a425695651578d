// Three locks of Go, each used as its documentation tells: `peer-go LOCK PORT`.
//
// `cycles N` is answered by the median time of a cycle in microseconds; `contend N` by the events of N turns and a line
// `end`. Times are CLOCK_MONOTONIC.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"sort"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"golang.org/x/sys/unix"
)

const hold = 1_000_000

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func now() int64 {
	var time unix.Timespec
	must(unix.ClockGettime(unix.CLOCK_MONOTONIC, &time))
	return time.Nano()
}

// Acquires and releases the lock of a name, again and again.
type lock struct{ acquire, release func() }

func locks(kind, port string) func(name string) lock {
	ctx := context.Background()
	address := "127.0.0.1:" + port
	switch kind {
	case "redislock":
		locker := redislock.New(redis.NewClient(&redis.Options{Addr: address}))
		// It fails at once unless it is told to try again; the backoff is that of its documentation.
		options := &redislock.Options{RetryStrategy: redislock.LinearBackoff(100 * time.Millisecond)}
		return func(name string) lock {
			var held *redislock.Lock
			return lock{
				func() { var err error; held, err = locker.Obtain(ctx, name, 30*time.Second, options); must(err) },
				func() { must(held.Release(ctx)) },
			}
		}
	case "redsync":
		sync := redsync.New(goredis.NewPool(redis.NewClient(&redis.Options{Addr: address})))
		return func(name string) lock {
			// It gives up after 32 tries unless it is told otherwise.
			mutex := sync.NewMutex(name, redsync.WithTries(1_000_000), redsync.WithExpiry(30*time.Second))
			return lock{
				func() { must(mutex.Lock()) },
				func() { _, err := mutex.Unlock(); must(err) },
			}
		}
	case "etcd":
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{address}, DialTimeout: 10 * time.Second})
		must(err)
		session, err := concurrency.NewSession(client)
		must(err)
		return func(name string) lock {
			mutex := concurrency.NewMutex(session, "/"+name+"/")
			return lock{
				func() { must(mutex.Lock(ctx)) },
				func() { must(mutex.Unlock(ctx)) },
			}
		}
	}
	panic("no lock " + kind)
}

func cycles(lock lock, count int) {
	times := make([]float64, count)
	for i := range times {
		start := time.Now()
		lock.acquire()
		lock.release()
		times[i] = float64(time.Since(start).Nanoseconds()) / 1000
	}
	sort.Float64s(times)
	fmt.Println(times[count/2])
}

func contend(lock lock, count int) {
	events := make([]string, 0, 3*count)
	for range count {
		events = append(events, fmt.Sprint("called ", now()))
		lock.acquire()
		got := now()
		// Spins, because a sleep takes as long as the kernel and the runtime like.
		for now() < got+hold {
		}
		events = append(events, fmt.Sprint("got ", got), fmt.Sprint("released ", now()))
		lock.release()
	}
	out := bufio.NewWriter(os.Stdout)
	for _, event := range events {
		fmt.Fprintln(out, event)
	}
	fmt.Fprintln(out, "end")
	must(out.Flush())
}

func main() {
	of := locks(os.Args[1], os.Args[2])
	free, contended := of("peer:free"), of("peer:contended")
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var verb string
		var count int
		_, err := fmt.Sscan(lines.Text(), &verb, &count)
		must(err)
		if verb == "cycles" {
			cycles(free, count)
		} else {
			contend(contended, count)
		}
	}
}
