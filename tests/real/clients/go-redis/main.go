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

	pipeline := client.Pipeline()
	var commands []*redis.Cmd
	for range 4 {
		commands = append(commands, pipeline.Do(ctx, "CL.THROTTLE", key, 2, 3, 3600))
	}
	_, err = pipeline.Exec(ctx)
	must(err)
	var replies []any
	for _, command := range commands {
		replies = append(replies, command.Val())
	}
	shown["pipeline"] = replies

	shown["check"], err = client.Do(ctx, "TIDEGATE.CHECK", "clients", "user", key).Result()
	must(err)
	// Concurrently, over the connections of the pool.
	together := make([]any, 10)
	var all sync.WaitGroup
	for at := range together {
		all.Go(func() {
			reply, err := client.Do(ctx, "TIDEGATE.CHECK", "clients", "user", key).Result()
			must(err)
			together[at] = reply
		})
	}
	all.Wait()
	shown["together"] = together

	shown["unknown"] = client.Get(ctx, "x").Err().Error()
	must(client.Close())
	must(json.NewEncoder(os.Stdout).Encode(shown))
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
