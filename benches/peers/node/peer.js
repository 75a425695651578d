// The semaphore of npm redis-semaphore, used as its documentation tells: `peer.js PORT`.
//
// `share MOST FIRST CALLERS TURNS` is answered by the events of each caller's turns and a line `end`. Times are
// CLOCK_MONOTONIC.
const readline = require("node:readline");
const Redis = require("ioredis");
const { Semaphore } = require("redis-semaphore");

const HOLD_MS = 20;
const now = () => process.hrtime.bigint();
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

async function caller(client, most, turns) {
  const events = [];
  for (let turn = 0; turn < turns; turn++) {
    // Its default gives up after ten seconds.
    const semaphore = new Semaphore(client, "peer:shared", most, { acquireTimeout: 30000 });
    events.push(`called ${now()}`);
    await semaphore.acquire();
    events.push(`got ${now()}`);
    await sleep(HOLD_MS);
    events.push(`released ${now()}`);
    await semaphore.release();
  }
  return [...events, "end"].join("\n");
}

async function main() {
  const client = new Redis(Number(process.argv[2]));
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [most, , callers, turns] = line.split(" ").slice(1).map(Number);
    const all = await Promise.all(Array.from({ length: callers }, () => caller(client, most, turns)));
    console.log(all.join("\n"));
  }
  client.disconnect();
}

main();
