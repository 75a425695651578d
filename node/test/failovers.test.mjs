// Another server becomes the master while a lock is held and others wait, each with a client of its own.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Client, LockLostError } from 'fairlock'
import { aborted, eventually, Kit, waiting } from './support/kit.mjs'

/** Nobody takes the master's place for longer than a short lease lasts. */
const UNNOTICED = 5000

/** How each set-up is started, and what a client is told of it. */
const SET_UPS = {
  async Sentinel(kit) {
    const { id, master, sentinels } = await kit.do('sentinels', { replicas: 1, down_after_ms: UNNOTICED })
    return { id, settings: { master, sentinels: sentinels.map(({ port }) => `127.0.0.1:${port}`) } }
  },
  async 'a cluster'(kit) {
    const { id, servers } = await kit.do('cluster', { replicas: true, node_timeout_ms: UNNOTICED })
    return { id, settings: { nodes: servers.map(({ port }) => `127.0.0.1:${port}`) } }
  },
}

/** A holder, and three who wait. All locks whose names begin so have the same hash slot. */
async function queue(t, settings, name, lease) {
  const [lock, ...others] = Array.from({ length: 4 }, () => {
    const client = new Client(settings)
    t.after(() => client.close())
    return client.lock(`slot}${name}`, { lease, liveness: 60_000 })
  })
  const held = await lock.acquire()
  const places = []
  for (const other of others) places.push(await other.enqueue())
  const grants = []
  const turns = places.map(async place => {
    const mine = await place.granted()
    grants.push([place.ticket, mine.token])
    mine.check()
    await mine.release()
  })
  /** All have had their turn, one after the other. */
  const served = async () => {
    await Promise.all(turns)
    assert.deepEqual(grants.map(([ticket]) => ticket), places.map(({ ticket }) => ticket))
    const tokens = [held.token, ...grants.map(([, token]) => token)]
    assert.deepEqual(tokens, [...tokens].sort((a, b) => a - b))
  }
  return { lock, held, grants, served }
}

for (const [name, start] of Object.entries(SET_UPS)) {
  test(`a failover of ${name}: a long lease goes on, a short one is lost with its signal, and all are served in order`, async t => {
    const kit = new Kit(t)
    const { id, settings } = await start(kit)
    const long = await queue(t, settings, 'long', 120_000)
    const short = await queue(t, settings, 'short', 2000)
    const { signal } = short.held

    const old = await kit.do('master', { of: id, key: 'slot' })
    await kit.do('await_copies', { of: old, key: 'slot', replicas: 1 })
    await kit.do('kill', { of: old })
    await aborted(signal)
    assert.ok(signal.reason instanceof LockLostError)
    assert.equal(signal.reason.reason, 'not renewed')
    assert.ok(short.held.remaining > 0, 'nobody else can have it yet')
    await kit.do('await_promotion', { of: id, key: 'slot', old })

    await short.served()
    await eventually('the new master knows the lease', () => {
      long.held.check()
      return long.held.verify().catch(() => false)
    })
    await waiting(long.lock, 3)
    assert.deepEqual([long.held.signal.aborted, long.grants], [false, []])
    await long.held.release()
    await long.served()
  })
}

test('locks of several hash slots of a cluster are held together', async t => {
  const kit = new Kit(t)
  const { servers } = await kit.do('cluster')
  const client = new Client({ nodes: servers.map(({ port }) => `127.0.0.1:${port}`) })
  t.after(() => client.close())
  const leases = await client.lockAll(['a', 'b', 'c', 'd'])
  assert.equal(Object.keys(leases.tokens).length, 4)
  await leases.release()
})
