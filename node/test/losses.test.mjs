// Processes that are killed or stopped, grants that are not taken, and servers that are lost.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Client, LockLostError, NotTakenError } from 'fairlock'
import { aborted, eventually, program, serverAndClient, waiting } from './support/kit.mjs'

const SHORT = { lease: 1500, liveness: 1000, buffer: 200 }
const LOCK = `client.lock('lock', ${JSON.stringify(SHORT)})`

test('a grant that a blocked event loop does not take for a lease goes to the next', async t => {
  const { server, client } = await serverAndClient(t)
  const lock = client.lock('lock', SHORT)
  const lease = await lock.acquire()
  const { heard, ended } = program(t, server.url, `
    const outcome = ${LOCK}.acquire().catch(error => say(error.code))
    while ((await ${LOCK}.inspect()).waiting === 0);
    say('waits')
    block(6000)
    await outcome`)
  await heard('waits')
  await lease.release()
  await (await lock.acquire({ timeout: 30_000 })).release()
  await heard(NotTakenError.prototype.code)
  assert.equal((await ended()).code, 0)
})

test('a holder that is killed costs its lease, a waiter its liveness', async t => {
  const { server, client } = await serverAndClient(t)
  const lock = client.lock('lock', SHORT)
  const holder = program(t, server.url, `await ${LOCK}.acquire(); say('holds')`)
  await holder.heard('holds')
  const waiter = program(t, server.url, `await ${LOCK}.acquire()`)
  await waiting(lock, 1)
  const mine = lock.acquire({ timeout: 60_000 })
  await waiting(lock, 2)
  waiter.child.kill('SIGKILL')
  holder.child.kill('SIGKILL')
  assert.equal((await holder.ended()).signal, 'SIGKILL')
  await (await mine).release()
})

test('a process that is stopped loses its lease, and hears of it when it goes on', async t => {
  const { server, client } = await serverAndClient(t)
  const { child, heard, line, ended } = program(t, server.url, `
    const lease = await ${LOCK}.acquire()
    lease.signal.addEventListener('abort', () => say(lease.signal.reason.name))
    say('holds')
    await sleep(1)
    process.stdin.once('data', () => {
      try { lease.check() } catch (error) { say(error.code) }
      process.stdin.destroy()
    })`)
  await heard('holds')
  child.kill('SIGSTOP')
  await (await client.lock('lock', SHORT).acquire({ timeout: 60_000 })).release()
  child.stdin.write('go\n')
  child.kill('SIGCONT')
  // Whichever comes first.
  assert.deepEqual([await line(), await line()].sort(), ['FAIRLOCK_LOCK_LOST', 'LockLostError'])
  assert.equal((await ended()).code, 0)
})

test('the signal is aborted by whatever hears of the loss first', async t => {
  const { client } = await serverAndClient(t)
  const lock = client.lock('lock', { lease: 3000 })
  const hear = {
    check: async lease => { for (;;) { lease.check(); await new Promise(setImmediate) } },
    renew: lease => lease.renew(),
    release: lease => lease.release(),
  }
  for (const [by, ask] of Object.entries(hear)) {
    const lease = await lock.acquire()
    const { signal } = lease
    await lock.break(lease.token, { force: true })
    const error = await ask(lease).then(() => assert.fail(by), error => error)
    assert.equal(error.code, LockLostError.prototype.code, by)
    assert.ok(signal.aborted, by)
    await lease.release().catch(() => {})
    assert.ok(signal.reason instanceof LockLostError, by)
  }
})

test('a lease and a place survive a server that is killed and comes back empty', async t => {
  const { kit, server, client } = await serverAndClient(t)
  const lock = client.lock('lock', { lease: 10_000, liveness: 2000 })
  const lease = await lock.acquire()
  const place = await lock.enqueue()
  await kit.do('restart', { of: server })
  await eventually('the lease is back', async () => (await lock.inspect()).holders[0]?.token === lease.token)
  await eventually('the place is back', async () => (await lock.inspect()).waiting === 1)
  lease.check()
  await lease.release()
  const next = await place.granted()
  assert.ok(next.token > lease.token)
  await next.release()
})

test('a lease is lost before its end when the server stays away, with the reason', async t => {
  const { kit, server } = await serverAndClient(t)
  const client = new Client(server.url)
  const lease = await client.lock('lock', SHORT).acquire()
  const renewed = assert.rejects(lease.renewed(), LockLostError)
  const { signal } = lease
  await kit.do('kill', { of: server })
  await aborted(signal)
  assert.ok(lease.remaining > 0, 'nobody else can have it yet')
  assert.equal(signal.reason.reason, 'not renewed')
  assert.match(signal.reason.message, /not renewed in time/)
  await renewed
  await client.close()
})

test('a server that hangs ends an acquire by its timeout', async t => {
  const { kit, server, client } = await serverAndClient(t)
  const lock = client.lock('lock')
  await lock.inspect()
  await kit.do('stop', { of: server })
  await assert.rejects(lock.acquire({ timeout: 300 }), { code: 'FAIRLOCK_TIMEOUT' })
  await kit.do('cont', { of: server })
  await assert.doesNotReject(lock.run({ timeout: 60_000 }, () => {}))
})
