// A primary of `cluster` and three workers that take turns.
const cluster = require('node:cluster')
const { once } = require('node:events')
const { Client } = require('fairlock')

const lock = new Client(process.env.FAIRLOCK_URL).lock('cluster')

async function primary() {
  const lease = await lock.acquire()
  const workers = Array.from({ length: 3 }, () => cluster.fork())
  const tokens = workers.map(async worker => (await once(worker, 'message'))[0])
  const codes = workers.map(async worker => (await once(worker, 'exit'))[0])
  while ((await lock.inspect()).waiting < 3);
  await lease.release()
  console.log(new Set([lease.token, ...(await Promise.all(tokens))]).size, ...(await Promise.all(codes)))
}

async function worker() {
  await lock.run(lease => process.send(lease.token))
  process.disconnect()
}

if (cluster.isPrimary) primary()
else worker()
