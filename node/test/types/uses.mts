// Compiled, not run: what people write, and what they should not.
import fairlock, { Client, connect, type Lease, LockLostError, type LockOptions, TimeoutError } from 'fairlock'
import { LockService } from 'fairlock/testing'

const options: LockOptions = { lease: 30_000, maxWaiting: 3 }
await using client = await connect('redis://127.0.0.1/', { prefix: 'app' })
await using lease: Lease = await client.lock('reports', options).acquire({ timeout: 30_000, signal: new AbortController().signal })
const token: number = lease.token
const text: string = await client.lock('a').run({ timeout: 1 }, async held => `${held.slot} ${token}`)
const perhaps: Lease | null = await client.semaphore('gpu', 4).tryAcquire()
// @ts-expect-error: it may be null.
perhaps.check()
await using place = await client.rwLock('index').writer.enqueue()
for await (const position of place.positions({ every: 100 })) console.log(position.toFixed(), text)
const slot: number | undefined = (await client.lockAll(['a', client.semaphore('b', 2)])).slotOf['b']
try {
  lease.check()
} catch (error) {
  if (error instanceof LockLostError) console.log(error.reason === 'not renewed', error.cause, error.code, slot)
  if (error instanceof TimeoutError) console.log(error.position?.toFixed())
}
new Client({ sentinels: ['a:1'], master: 'm', credentials: async () => ({ password: 'p', expiresIn: 1000 }) })
new fairlock.Client(new URL('redis://a/'))
await using service = new LockService()
service.advance(1000)
// @ts-expect-error: a misspelt option.
client.lock('a', { leese: 1 })
// @ts-expect-error: locks are made by clients.
new fairlock.Lock()
