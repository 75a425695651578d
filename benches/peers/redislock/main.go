// Cycles of bsm/redislock: the number of cycles comes as a line, the median time of one in microseconds goes back.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"sort"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

func main() {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + os.Args[1]})
	locker := redislock.New(client)
	ctx := context.Background()
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var cycles int
		if _, err := fmt.Sscanf(lines.Text(), "cycles %d", &cycles); err != nil {
			panic(err)
		}
		times := make([]float64, cycles)
		for i := range times {
			start := time.Now()
			lock, err := locker.Obtain(ctx, "peer:redislock", 30*time.Second, nil)
			if err != nil {
				panic(err)
			}
			if err := lock.Release(ctx); err != nil {
				panic(err)
			}
			times[i] = float64(time.Since(start).Nanoseconds()) / 1000
		}
		sort.Float64s(times)
		fmt.Println(times[cycles/2])
	}
}
