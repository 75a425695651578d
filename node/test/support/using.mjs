// The syntax of Node 24 and newer, which older ones cannot read.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { connect, LockLostError } from 'fairlock'
import { LockService } from 'fairlock/testing'

test('await using ends a client, a place, a lease and several', async () => {
  await using service = new LockService()
  await using watcher = await connect(service.url)
  const lock = watcher.lock('block')
  {
    await using client = await connect(service.url)
    await using lease = await client.lock('block').acquire({ timeout: 30_000 })
    await using place = await client.lock('block').enqueue()
    await using several = await client.lockAll(['a', 'b'])
    assert.equal((await lock.inspect()).waiting, 1)
    several.check()
  }
  const { holders, waiting } = await lock.inspect()
  assert.deepEqual([holders.length, waiting], [0, 0])
})

test('a block that has found the loss throws it as it is', async () => {
  await using service = new LockService()
  const client = await service.client()
  const block = async () => {
    await using lease = await client.lock('block').acquire()
    service.breakLease('block')
    await lease.renew()
  }
  await assert.rejects(block, LockLostError)
})
