// A typical program with go-redis: connects, sends commands and pipelines, and prints each reply. It uses the default
// settings, except that it does not retry and has timeouts of two minutes.
// usage: go-redis-client PORT PROTOCOL [PASSWORD], where PROTOCOL is 2 or 3
package main

import (
	"context"
	"encoding/json"
	"log"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

func main() {
	protocol, err := strconv.Atoi(os.Args[2])
	must(err)
	const long = 2 * time.Minute
	options := &redis.Options{
		Addr:         "127.0.0.1:" + os.Args[1],
		Protocol:     protocol,
		MaxRetries:   -1,
		DialTimeout:  long,
		ReadTimeout:  long,
		WriteTimeout: long,
		PoolTimeout:  long,
	}
	if len(os.Args) > 3 {
		options.Password = os.Args[3]
	}
	client := redis.NewClient(options)
	ctx := context.Background()
	key := "go-redis-" + os.Args[2]

	shown := map[string]any{}
	shown["ping"], err = client.Ping(ctx).Result()
	must(err)
	shown["throttle"], err = client.Do(ctx, "CL.THROTTLE", key, 2, 3, 3600).Result()
	must(err)

	shown["pipeline"] = together(ctx, client.Pipeline(), 4, "CL.THROTTLE", key, 2, 3, 3600)
	// MULTI and EXEC. One command in three is denied; nothing is charged before EXEC.
	shown["multi"] = together(ctx, client.TxPipeline(), 3, "CL.THROTTLE", key+"-multi", 1, 1, 3600)

	shown["check"], err = client.Do(ctx, "TIDEGATE.CHECK", "clients", "user", key).Result()
	must(err)
	// Concurrently, over the connections of the pool.
	checks := make([]any, 10)
	var all sync.WaitGroup
	for at := range checks {
		all.Go(func() {
			reply, err := client.Do(ctx, "TIDEGATE.CHECK", "clients", "user", key).Result()
			must(err)
			checks[at] = reply
		})
	}
	all.Wait()
	shown["together"] = checks

	shown["unknown"] = client.Get(ctx, "x").Err().Error()
	must(client.Close())
	must(json.NewEncoder(os.Stdout).Encode(shown))
}

// together sends the same command several times in one pipeline and returns the replies.
func together(ctx context.Context, pipeline redis.Pipeliner, times int, command ...any) []any {
	var commands []*redis.Cmd
	for range times {
		commands = append(commands, pipeline.Do(ctx, command...))
	}
	_, err := pipeline.Exec(ctx)
	must(err)
	var replies []any
	for _, command := range commands {
		replies = append(replies, command.Val())
	}
	return replies
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
