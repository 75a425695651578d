// What people call, and what it gives them.
import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { test } from 'node:test'
import { inspect } from 'node:util'
import * as fairlock from 'fairlock'
import { aborted, serverAndClient, waiting } from './support/kit.mjs'

test('waiters are served in the order of their arrival, and tokens rise', async t => {
  const { client } = await serverAndClient(t)
  const lock = client.lock('line')
  const first = await lock.acquire({ label: 'first' })
  const served = []
  const others = []
  for (let number = 0; number < 20; number++) {
    const place = await lock.enqueue()
    assert.equal(await place.position(), number + 1)
    others.push(place.granted().then(async lease => {
      served.push(number)
      assert.ok(lease.token > first.token)
      await lease.release()
    }))
  }
  assert.equal(await lock.tryAcquire(), null)
  const { holders, queue } = await lock.inspect()
  assert.equal(holders[0].token, first.token)
  assert.equal(holders[0].label, 'first')
  assert.equal(queue.length, 20)
  await first.release()
  await first.release()
  await Promise.all(others)
  assert.deepEqual(served, [...served].sort((a, b) => a - b))
  assert.ok(Number.isSafeInteger(first.token))
})

test('a place tells its positions until it is granted', async t => {
  const { client } = await serverAndClient(t)
  const lock = client.lock('line')
  const leases = [await lock.acquire()]
  const before = await lock.enqueue()
  const place = await lock.enqueue()
  const seen = []
  for await (const position of place.positions({ every: 1 })) {
    seen.push(position)
    if (position === 2) await leases[0].release()
    if (position === 1) await (await before.granted()).release()
  }
  assert.deepEqual(seen, [2, 1])
  const lease = await place.granted()
  assert.ok(place.ticket < lease.token)
  await lease.release()
})

test('a place that is left goes to nobody, granted or not', async t => {
  const { kit, server, client } = await serverAndClient(t)
  const lock = client.lock('line')
  const lease = await lock.acquire()
  const [left, next] = [await lock.enqueue(), await lock.enqueue()]
  await left.leave()
  await assert.rejects(left.granted(), fairlock.FairlockError)
  await lease.release()
  await (await next.granted()).release()
  const unwanted = await lock.enqueue()
  await unwanted.leave()
  await kit.do('nothing_left', { of: server })
})

test('a semaphore gives each holder a slot of its own', async t => {
  const { client } = await serverAndClient(t)
  const gpus = client.semaphore('gpu', 3)
  const leases = [await gpus.acquire(), await gpus.acquire(), await gpus.tryAcquire()]
  assert.deepEqual(leases.map(lease => lease.slot), [0, 1, 2])
  assert.equal(await gpus.tryAcquire(), null)
  await leases[1].release()
  assert.equal(await gpus.run(lease => lease.slot), 1)
  assert.equal((await gpus.inspect()).slots, 3)
})

test('readers hold together, a writer alone until it is downgraded', async t => {
  const { client } = await serverAndClient(t)
  const index = client.rwLock('index')
  const writer = await index.write()
  assert.equal(await index.tryRead(), null)
  await writer.downgrade()
  const reader = await index.read()
  assert.equal(await index.tryWrite(), null)
  await Promise.all([writer.release(), reader.release()])
  const again = await index.tryWrite()
  await again.release()
  const plain = await client.semaphore('two', 2).acquire()
  await assert.rejects(plain.downgrade(), { name: 'InvalidOptionError', code: 'FAIRLOCK_INVALID_OPTION' })
  await plain.release()
})

test('several locks are held together, or none', async t => {
  const { kit, server, client } = await serverAndClient(t)
  const gpus = client.semaphore('gpu', 2)
  const leases = await client.lockAll(['b', gpus, 'a'])
  assert.deepEqual(Object.keys(leases.tokens), ['a', 'b', 'gpu'])
  assert.deepEqual({ ...leases.slotOf }, { a: 0, b: 0, gpu: 0 })
  leases.check()
  await assert.rejects(client.lockAll(['0', 'b'], { timeout: 20 }), { name: 'TimeoutError', lock: 'b' })
  await leases.release()
  await kit.do('nothing_left', { of: server })
})

test('run gives the result or the error of its job, and releases', async t => {
  const { kit, server, client } = await serverAndClient(t)
  const lock = client.lock('job')
  assert.equal(await lock.run(async lease => lease.name), 'job')
  await assert.rejects(lock.run({ timeout: 1000 }, () => { throw new RangeError('mine') }), RangeError)
  const lost = lock.run(async lease => {
    await lock.break(lease.token, { force: true })
    await aborted(lease.signal)
    lease.signal.throwIfAborted()
  })
  await assert.rejects(lost, { name: 'LockLostError', reason: 'broken' })
  await assert.rejects(lock.run(async lease => void (await lock.break(lease.token, { force: true }))), { reason: 'broken' })
  await kit.do('nothing_left', { of: server })
})

test('the end of a block tells of a loss once', async t => {
  const { client } = await serverAndClient(t)
  const lock = client.lock('block')
  for (const told of [false, true]) {
    const lease = await lock.acquire()
    await lock.break(lease.token, { force: true })
    await assert.rejects(lease.renew(), fairlock.LockLostError)
    if (told) await lease[Symbol.asyncDispose]()
  }
  const untold = await lock.acquire()
  await lock.break(untold.token, { force: true })
  await assert.rejects(untold[Symbol.asyncDispose](), { reason: 'broken' })
})

test('a lease can be extended, renewed and asked for', async t => {
  const { client } = await serverAndClient(t)
  const lease = await client.lock('lease', { lease: 5000, manualRenewal: true }).acquire({ owner: 'me' })
  const next = lease.renewed()
  await lease.renew()
  assert.ok((await next) > 0)
  await lease.extend(60_000)
  assert.ok(lease.remaining > 50_000)
  assert.equal(await lease.verify(), true)
  assert.equal(lease.owner, 'me')
  assert.ok(lease.grantedAt instanceof Date && lease.waited >= 0 && lease.lease === 5000)
  assert.match(inspect(lease), /^Lease \{\s+name: 'lease',\s+token: \d+/)
  await lease.release()
  assert.throws(() => lease.check(), { name: 'LockLostError', reason: 'released', lock: 'lease' })
  assert.equal(lease.signal.aborted, false)
  await assert.rejects(lease.extend(1), { reason: 'released' })
})

test('a timeout and a full queue say what was found', async t => {
  const { client } = await serverAndClient(t)
  const lock = client.lock('busy', { maxWaiting: 1 })
  const lease = await lock.acquire()
  const waits = lock.acquire({ timeout: 500 })
  await waiting(lock, 1)
  await assert.rejects(lock.acquire(), { name: 'QueueFullError', waiting: 1, code: 'FAIRLOCK_QUEUE_FULL' })
  await assert.rejects(waits, error => {
    assert.ok(error instanceof fairlock.TimeoutError && error instanceof fairlock.FairlockError)
    assert.equal(error.position, 1)
    assert.ok(error.waited >= 500)
    // The caller, and not only a timer.
    assert.match(error.stack, /locks\.test\.mjs/)
    return true
  })
  await lease.release()
})

test('an error has its cause', async t => {
  await assert.rejects(fairlock.connect('redis://127.0.0.1:1/'), error => {
    assert.ok(error instanceof fairlock.ConnectionError)
    assert.equal(error.code, 'FAIRLOCK_CONNECTION')
    assert.equal(error.cause.code, 'ECONNREFUSED')
    return true
  })
  const { kit } = await serverAndClient(t)
  const closed = await kit.server({ password: 'secret' })
  await assert.rejects(fairlock.connect(closed.url), fairlock.AuthenticationError)
  const asked = []
  const credentials = async () => (asked.push(1), { password: 'secret', expiresIn: 60_000 })
  const client = await fairlock.connect(closed.url, { credentials })
  assert.equal(await client.lock('a').run(() => 'in'), 'in')
  assert.ok(asked.length > 0)
  await client.close()
  const wrong = () => { throw new Error('no vault') }
  await assert.rejects(fairlock.connect(closed.url, { credentials: wrong }), /no vault/)
})

test('an encrypted server is asked with the certificates that it demands', async t => {
  const { kit } = await serverAndClient(t)
  const { id, authority, certificate, key } = await kit.do('certificates', { host: '127.0.0.1' })
  const { port } = await kit.server({ tcp: true, certificates: id })
  const url = `rediss://127.0.0.1:${port}/`
  await assert.rejects(fairlock.connect(url), fairlock.ConnectionError)
  const client = await fairlock.connect(url, { caFile: authority, certificateFile: certificate, keyFile: key })
  assert.equal(await client.lock('a').run(() => 'in'), 'in')
  await client.close()
})

test('options that cannot work are refused', async t => {
  const { client } = await serverAndClient(t)
  const lock = client.lock('options')
  const refused = [
    () => client.lock(''),
    () => client.lock(7),
    () => client.semaphore('a', 0),
    () => client.lock('a', { leese: 1000 }),
    () => client.lock('a', { lease: -1 }),
    () => client.rwLock('a', { slots: 2 }),
    () => lock.acquire({ timeout: '3' }),
    () => lock.acquire({ signal: true }),
    () => lock.acquire(3000),
    () => lock.run({ timeout: 1 }),
    () => lock.break('x'),
    () => client.lockAll([]),
    () => client.lockAll('a'),
    () => new fairlock.Client({ url: 'redis://a/', nodes: ['b'] }),
    () => new fairlock.Client({ sentinels: ['a'] }),
    () => new fairlock.Client('redis://a/', { user: 'a' }),
    () => new fairlock.Client('nothing://a/'),
  ]
  for (const call of refused) await assert.rejects(async () => call(), { code: 'FAIRLOCK_INVALID_OPTION' }, String(call))
})

test('a closed client says so, and its leases are lost', async t => {
  const { client } = await serverAndClient(t)
  const lock = client.lock('closed')
  const lease = await lock.acquire()
  const waits = assert.rejects(lock.acquire(), fairlock.ClosedError)
  await client.close()
  await waits
  await aborted(lease.signal)
  assert.equal(lease.signal.reason.reason, 'closed')
  await assert.rejects(lock.acquire(), { name: 'ClosedError', code: 'FAIRLOCK_CLOSED' })
  await client.close()
})

test('both kinds of modules have the same classes', () => {
  const required = createRequire(import.meta.url)('fairlock')
  assert.equal(required.LockLostError, fairlock.LockLostError)
  const names = Object.keys(fairlock).filter(name => !['default', 'module.exports'].includes(name))
  assert.deepEqual(names.sort(), Object.keys(required).sort())
})

if (Number(process.versions.node.split('.')[0]) >= 24) await import('./support/using.mjs')
