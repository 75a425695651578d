// Groups of a job queue: of each customer at most two jobs at once, over all workers, in the order of their arrival.
// BullMQ has the jobs, and retries them; fairlock says whose turn it is. A job that waits here occupies one of the
// worker's `concurrency`, but no connection and no timer.
import { Worker } from 'bullmq'
import { connect } from 'fairlock'

const url = process.env.REDIS_URL ?? 'redis://127.0.0.1/'
const client = await connect(url)

const worker = new Worker('exports', async job => {
  await using lease = await client.semaphore(`exports:${job.data.customer}`, 2).acquire({ label: `job ${job.id}` })
  await job.updateProgress(1)
  // Two exports of a customer, and so two of his accounts: the slot says which one is free.
  const result = await exported(job.data, { account: lease.slot, signal: lease.signal })
  lease.check()
  return result
}, { connection: { url, maxRetriesPerRequest: null }, concurrency: 20 })

async function exported({ customer, ms }, { account, signal }) {
  await new Promise(resolve => setTimeout(resolve, ms))
  signal.throwIfAborted()
  return `${customer} by account ${account}`
}

worker.on('error', error => console.error(error))
process.once('SIGTERM', async () => {
  await worker.close()
  await client.close()
})
console.log('ready')
