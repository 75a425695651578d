// Cycles of bsm/redislock: the number of cycles comes as a line, the time of one in microseconds goes back.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
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
		start := time.Now()
		for i := 0; i < cycles; i++ {
			lock, err := locker.Obtain(ctx, "peer:redislock", 30*time.Second, nil)
			if err != nil {
				panic(err)
			}
			if err := lock.Release(ctx); err != nil {
				panic(err)
			}
		}
		fmt.Println(float64(time.Since(start).Nanoseconds()) / 1000 / float64(cycles))
	}
}
