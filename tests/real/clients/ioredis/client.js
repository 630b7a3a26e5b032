// A typical program with ioredis: connects, sends commands and pipelines, and prints each reply. It uses the default
// settings, except that it does not retry and has two minutes to connect.
// usage: client.js PORT [PASSWORD]
const Redis = require("ioredis");

async function main(port, password) {
  const redis = new Redis({
    port: Number(port),
    host: "127.0.0.1",
    password,
    maxRetriesPerRequest: 0,
    connectTimeout: 120_000,
  });
  const shown = {};
  shown.ping = await redis.ping();
  shown.throttle = await redis.call("CL.THROTTLE", "ioredis", 2, 3, 3600);
  const pipeline = redis.pipeline();
  for (let i = 0; i < 4; i++) pipeline.call("CL.THROTTLE", "ioredis", 2, 3, 3600);
  shown.pipeline = (await pipeline.exec()).map(([error, reply]) => (error ? error.message : reply));
  shown.check = await redis.call("TIDEGATE.CHECK", "clients", "user", "ioredis");
  shown.together = await Promise.all(
    Array.from({ length: 10 }, () => redis.call("TIDEGATE.CHECK", "clients", "user", "ioredis")),
  );
  // One command in three is denied; nothing is charged before EXEC.
  const multi = redis.multi();
  for (let i = 0; i < 3; i++) multi.call("CL.THROTTLE", "ioredis-multi", 1, 1, 3600);
  shown.multi = (await multi.exec()).map(([error, reply]) => (error ? error.message : reply));
  shown.unknown = await redis.get("x").catch((error) => error.message);
  shown.quit = await redis.quit();
  console.log(JSON.stringify(shown));
}

main(...process.argv.slice(2)).catch((error) => {
  console.error(error);
  process.exit(1);
});
