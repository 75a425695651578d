// What is used is given back: descriptors, threads, memory.
import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { once } from 'node:events'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { Worker } from 'node:worker_threads'
import { Client } from 'fairlock'
import { eventually, program, serverAndClient } from './support/kit.mjs'

/** Far fewer than there are clients or workers in these tests. */
const SOME = 10

setFlagsFromString('--expose-gc')
const gc = runInNewContext('gc')
const count = what => readdirSync(`/proc/self/${what}`).length
const settled = async () => {
  gc()
  await new Promise(setImmediate)
  gc()
}

const SOURCE = `
  const { workerData, parentPort } = require('node:worker_threads')
  const lock = new (require(workerData.entry).Client)(workerData.url).lock('a')
  lock.acquire().then(lease => { globalThis.lease = lease; parentPort.postMessage('holds') })`

const ROUNDS = {
  async 'clients, closed or forgotten,'(url, number) {
    const client = new Client(url)
    await client.lock('a').run(() => {})
    if (number % 2) await client.close()
  },
  async 'workers that end while they hold'(url) {
    const worker = new Worker(SOURCE, { eval: true, workerData: { url, entry: fileURLToPath(import.meta.resolve('fairlock')) } })
    await once(worker, 'message')
    await worker.terminate()
  },
}

for (const [what, round] of Object.entries(ROUNDS)) {
  test(`${what} leave no descriptor and no thread`, { skip: process.platform !== 'linux' }, async t => {
    const { server, client } = await serverAndClient(t)
    await client.lock('a').inspect()
    for (let number = 0; number < 4; number++) await round(server.url, number)
    await settled()
    const [descriptors, threads] = [count('fd'), count('task')]
    for (let number = 0; number < 10 * SOME; number++) await round(server.url, number)
    await eventually('descriptors and threads are given back', async () => {
      await settled()
      // All clients share some threads, which may begin later.
      return count('fd') < descriptors + SOME && count('task') < threads + SOME
    })
  })
}

test('cycles need no memory', async t => {
  const { server } = await serverAndClient(t)
  const { line, ended } = program(t, server.url, `
    const lock = client.lock('a')
    const { signal } = new AbortController()
    const cycles = async times => {
      for (let done = 0; done < times; done += 20) {
        await Promise.all(Array.from({ length: 20 }, async (_, number) => {
          const lease = await lock.acquire({ signal, timeout: 60_000 })
          if (number === 0) lease.signal.addEventListener('abort', () => {})
          await lease.release()
        }))
      }
      for (let times = 0; times < 3; times++) { gc(); await sleep(1) }
      return process.memoryUsage()
    }
    const before = await cycles(10_000)
    const after = await cycles(10_000)
    say(...['heapUsed', 'rss'].map(what => (after[what] - before[what]) / 10_000))`,
    // The native half takes some megabytes in its first thousands of cycles, and none after them.
    // With a small nursery the native half of what is young is not many megabytes.
    { flags: ['--expose-gc', '--max-semi-space-size=1'] })
  const [heap, all] = (await line()).split(' ').map(Number)
  t.diagnostic(`bytes that each cycle kept: ${heap} on the heap, ${all} in all`)
  // The heap of V8 is counted to the byte, all memory only by pages.
  assert.ok(heap < 50 && all < 1000, `${heap}, ${all}`)
  assert.equal((await ended()).code, 0)
})
