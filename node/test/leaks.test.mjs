// What is used is given back: descriptors, threads, memory.
import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { once } from 'node:events'
import { test } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { Worker } from 'node:worker_threads'
import { Client } from 'fairlock'
import { eventually, program, serverAndClient } from './support/kit.mjs'

/** Fewer than there are clients or workers in these tests. */
const SOME = 10

setFlagsFromString('--expose-gc')
const gc = runInNewContext('gc')
const count = what => readdirSync(`/proc/self/${what}`).length
const settled = async () => {
  gc()
  await new Promise(setImmediate)
  gc()
}

test('clients, closed or forgotten, leave no descriptor and no thread', { skip: process.platform !== 'linux' }, async t => {
  const { server, client } = await serverAndClient(t)
  await client.lock('a').inspect()
  const round = async number => {
    const other = new Client(server.url)
    await other.lock('a').run(() => {})
    if (number % 2) await other.close()
  }
  await round(0)
  await settled()
  const [descriptors, threads] = [count('fd'), count('task')]
  for (let number = 0; number < 100; number++) await round(number)
  await eventually('descriptors and threads are given back', async () => {
    await settled()
    // All clients share some threads, which may begin later.
    return count('fd') < descriptors + SOME && count('task') < threads + SOME
  })
})

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
    const before = await cycles(2000)
    const after = await cycles(4000)
    say(...['heapUsed', 'rss'].map(what => (after[what] - before[what]) / 4000))`,
    // With a small nursery the native half of what is young is not many megabytes.
    { flags: ['--expose-gc', '--max-semi-space-size=1'] })
  const [heap, all] = (await line()).split(' ').map(Number)
  t.diagnostic(`bytes that each cycle kept: ${heap} on the heap, ${all} in all`)
  // The heap of V8 is counted to the byte, all memory only by pages.
  assert.ok(heap < 50 && all < 1000, `${heap}, ${all}`)
  assert.equal((await ended()).code, 0)
})

test('workers that end while they hold leave no descriptor and no thread', { skip: process.platform !== 'linux' }, async t => {
  const { server } = await serverAndClient(t)
  const entry = new URL(import.meta.resolve('fairlock')).pathname.replace('.mjs', '.js')
  const source = `
    const { workerData, parentPort } = require('node:worker_threads')
    const lock = new (require(workerData.entry).Client)(workerData.url).lock('a')
    lock.acquire().then(lease => { globalThis.lease = lease; parentPort.postMessage('holds') })`
  const round = async () => {
    const worker = new Worker(source, { eval: true, workerData: { url: server.url, entry } })
    await once(worker, 'message')
    await worker.terminate()
  }
  for (let rounds = 0; rounds < 3; rounds++) await round()
  const [descriptors, threads] = [count('fd'), count('task')]
  for (let rounds = 0; rounds < 30; rounds++) await round()
  await eventually('all is given back', async () => {
    await settled()
    // All clients share some threads, which may begin later.
    return count('fd') < descriptors + SOME && count('task') < threads + SOME
  })
})
