// What is used is given back: descriptors, threads, memory.
import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { once } from 'node:events'
import { test } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { Worker } from 'node:worker_threads'
import { Client } from 'fairlock'
import { eventually, serverAndClient } from './support/kit.mjs'

setFlagsFromString('--expose-gc')
const gc = runInNewContext('gc')
const count = what => readdirSync(`/proc/self/${what}`).length
const settled = async () => {
  gc()
  await new Promise(setImmediate)
  gc()
  return process.memoryUsage()
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
  await eventually('the first is gone', async () => (await settled(), (await client.lock('a').inspect()).waiting === 0))
  const [descriptors, threads] = [count('fd'), count('task')]
  for (let number = 0; number < 100; number++) await round(number)
  await eventually('descriptors and threads are given back', async () => {
    await settled()
    return count('fd') <= descriptors && count('task') <= threads
  })
})

test('cycles need no memory', async t => {
  const { client } = await serverAndClient(t)
  const lock = client.lock('a')
  const abort = new AbortController()
  const cycles = async times => {
    for (let done = 0; done < times; done += 20) {
      await Promise.all(Array.from({ length: 20 }, async (_, number) => {
        const lease = await lock.acquire({ signal: abort.signal, timeout: 60_000 })
        if (number === 0) lease.signal.addEventListener('abort', () => {})
        await lease.release()
      }))
    }
    return settled()
  }
  // The memory of the native half grows until the collector is in step.
  const before = await cycles(15_000)
  const after = await cycles(5000)
  const growth = what => (after[what] - before[what]) / 5000
  // The heap of V8 is counted to the byte, that of the native half only by what the system gives.
  assert.ok(growth('heapUsed') < 50, `${growth('heapUsed')} bytes of heap for each cycle`)
  assert.ok(growth('rss') < 1000, `${growth('rss')} bytes for each cycle`)
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
    return count('fd') <= descriptors && count('task') <= threads
  })
})
