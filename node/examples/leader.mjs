// One leader among several processes, and standbys in line: the first of them follows at once.
import { Client, FairlockError, LockLostError } from 'fairlock'

await using client = Client.fromEnv({ label: process.env.NAME })
const seat = client.lock('scheduler:leader', { lease: 5000, liveness: 5000 })
const stop = new AbortController()
process.once('SIGTERM', () => stop.abort())

while (!stop.signal.aborted) {
  try {
    await using lease = await seat.acquire({ signal: stop.signal })
    await lead(lease.token, AbortSignal.any([stop.signal, lease.signal]))
    lease.check()
  } catch (error) {
    if (stop.signal.aborted) break
    if (!(error instanceof FairlockError)) throw error
    // It leads no more, and stands in line again.
    console.log(error instanceof LockLostError ? `lost: ${error.reason}` : error.message)
  }
}

async function lead(token, signal) {
  console.log(`leads with ${token}`)
  await new Promise(resolve => signal.addEventListener('abort', resolve, { once: true }))
}
