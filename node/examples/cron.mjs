// A script that cron starts on each of several machines: one of them does the work.
import { Client } from 'fairlock'

await using client = Client.fromEnv()
await using lease = await client.lock('backup:nightly').tryAcquire()
if (lease) await backup(lease)
else console.log('another machine is at it')

async function backup(lease) {
  console.log(`backup ${lease.token}`)
  await new Promise(resolve => setTimeout(resolve, Number(process.env.WORK ?? 0)))
}
