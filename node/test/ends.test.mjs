// How programs end: in each state, in each way, with nothing left behind.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { Worker } from 'node:worker_threads'
import { program, serverAndClient, waiting } from './support/kit.mjs'

/** A program that ends by itself, well, and without a word on stderr. */
async function endsWell(t, url, source, options) {
  const { ended } = program(t, url, source, options)
  assert.deepEqual(await ended(), { code: 0, signal: null, errors: '' })
}

test('a client that is idle lets the process end, whatever it has done', async t => {
  const { kit, server } = await serverAndClient(t)
  const states = [
    '',
    'await client.close()',
    'await client.lock("a").inspect()',
    'await client.lock("a").run(() => {})',
    'const lease = await client.lock("a").acquire(); await lease.release(); lease.signal',
    'const place = await client.lock("a").enqueue(); await place.leave()',
    'await client.lock("a").acquire({ signal: AbortSignal.abort() }).catch(() => {})',
    'const lease = await client.lock("a").acquire(); await client.lock("a").break(lease.token, { force: true })',
    'await fairlock.connect("redis://127.0.0.1:1/").catch(() => {})',
    'await client.lock("a").acquire(); client.close()',
  ]
  for (const state of states) {
    t.diagnostic(state)
    await endsWell(t, server.url, state)
  }
  await kit.do('nothing_left', { of: server })
})

test('what is under way keeps the process alive: a lease, a wait, an inspection', async t => {
  const { server, client } = await serverAndClient(t)
  const lock = client.lock('kept')
  const holder = program(t, server.url, `
    const lease = await client.lock('kept').acquire()
    lease.signal.addEventListener('abort', () => say(lease.signal.reason.reason))
    client.lock('kept').inspect().then(({ holders }) => say(holders.length, 'holds'))`)
  await holder.heard('1 holds')
  const waiter = program(t, server.url, "await client.lock('kept').run(() => say('mine'))")
  await waiting(lock, 1)
  assert.equal(holder.child.exitCode, null)
  // It lives for its lease: without it, it ends.
  const { holders } = await lock.inspect()
  await lock.break(holders[0].token, { force: true })
  await holder.heard('broken')
  assert.equal((await holder.ended()).code, 0)
  await waiter.heard('mine')
  assert.equal((await waiter.ended()).code, 0)
})

test('every end that runs code releases at once', async t => {
  const { server, client } = await serverAndClient(t)
  const lock = client.lock('ends', { lease: 600_000, liveness: 600_000 })
  const ends = {
    'process.exit(0)': 0,
    'process.exitCode = 3; process.exit()': 3,
    "throw new Error('nobody catches it')": 1,
    "Promise.reject(new Error('nobody handles it'))": 1,
    "process.on('SIGTERM', () => process.exit(143)); process.kill(process.pid, 'SIGTERM'); await sleep(1e6)": 143,
    'await client.close()': 0,
  }
  for (const [end, code] of Object.entries(ends)) {
    // Nobody keeps its client, and a lease that is in use.
    const { ended, heard } = program(t, server.url, `
      const lock = ${end.includes('client') ? 'client' : 'new fairlock.Client(process.argv[1])'}
        .lock('ends', { lease: 600_000, liveness: 600_000 })
      const lease = await lock.acquire()
      lock.acquire().catch(() => {})
      while ((await lock.inspect()).waiting === 0);
      gc()
      await sleep(1)
      gc()
      globalThis.kept = lease
      say('holds')
      ${end}`, { flags: ['--expose-gc'] })
    await heard('holds')
    // It waits for no lease that would end.
    await lock.run({ timeout: 30_000 }, () => {})
    assert.equal((await ended()).code, code, end)
    assert.equal((await lock.inspect()).waiting, 0)
  }
})

test('a lease that nobody keeps is released, with a warning', async t => {
  const { server, client } = await serverAndClient(t)
  const { heard, ended, say } = program(t, server.url, `
    const { signal } = await client.lock('dropped').acquire()
    const kept = await client.lock('kept').acquire()
    process.on('warning', warning => say(warning.name, warning.code, warning.message.includes('"dropped"')))
    while ((await client.lock('dropped').inspect()).holders.length) { gc(); await sleep(1) }
    kept.check()
    while (!signal.aborted) await sleep(1)
    say('released')
    await kept.release()`, { flags: ['--expose-gc'] })
  await heard('FairlockWarning FAIRLOCK_DROPPED true')
  await heard('released')
  const { code, errors } = await ended()
  assert.equal(code, 0)
  assert.match(errors, /FAIRLOCK_DROPPED.*dropped without a release/)
})

test('nothing is thrown where nobody catches it, and no rejection is unhandled', async t => {
  const { kit, server } = await serverAndClient(t)
  const { child, heard, ended } = program(t, server.url, `
    process.on('unhandledRejection', error => say('unhandled', error))
    process.on('uncaughtException', error => say('uncaught', error))
    const lock = client.lock('quiet', { lease: 2000, liveness: 1000 })
    const lease = await lock.acquire()
    const lost = await lock.enqueue({ timeout: 10 })
    const place = await lock.enqueue()
    say('ready')
    process.stdin.once('data', async () => {
      // The server is gone: the lease is lost, the wait goes on, and nobody listens to either.
      while (lease.remaining > 0) await sleep(10)
      await place.leave()
      await lease[Symbol.asyncDispose]().catch(() => {})
      say('over')
      process.stdin.destroy()
    })`)
  await heard('ready')
  await kit.do('kill', { of: server })
  child.stdin.write('go\n')
  await heard('over')
  assert.deepEqual(await ended(), { code: 0, signal: null, errors: '' })
})

const WORKER = `
  const { workerData, parentPort } = require('node:worker_threads')
  const { Client } = require(workerData.entry)
  const client = new Client(workerData.url)
  const lock = client.lock('worker', { lease: 600_000, liveness: 600_000 })
  const work = async () => {
    globalThis.lease = await lock.acquire()
    client.lock('other').acquire()
    lock.acquire().catch(() => {})
    while ((await lock.inspect()).waiting === 0);
    parentPort.postMessage('holds')
    if (workerData.end === 'throw') throw new Error('its end')
    if (workerData.end === 'exit') process.exit()
    if (workerData.end === 'busy') for (;;);
  }
  work().catch(error => setImmediate(() => { throw error }))`

test('a worker that ends gives back what it held and where it waited', async t => {
  const { kit, server, client } = await serverAndClient(t)
  const lock = client.lock('worker', { lease: 600_000, liveness: 600_000 })
  const mine = await client.lock('main').acquire()
  const entry = new URL(import.meta.resolve('fairlock')).pathname
  for (const end of ['terminate', 'exit', 'throw', 'busy', 'terminate']) {
    const worker = new Worker(WORKER, { eval: true, workerData: { url: server.url, entry, end } })
    const error = once(worker, 'error').then(([error]) => error.message)
    await once(worker, 'message')
    if (end === 'terminate' || end === 'busy') await worker.terminate()
    if (end === 'throw') assert.equal(await error, 'its end')
    await lock.run({ timeout: 30_000 }, () => {})
    assert.equal((await lock.inspect()).waiting, 0, end)
  }
  // That of this thread goes on.
  mine.check()
  await mine.release()
  await kit.do('nothing_left', { of: server })
})

test('processes of cluster, which child_process.fork makes, take turns', async t => {
  const { server } = await serverAndClient(t)
  const file = new URL('./support/clustered.cjs', import.meta.url).pathname
  const run = promisify(execFile)(process.execPath, [file], { env: { ...process.env, FAIRLOCK_URL: server.url } })
  assert.deepEqual(await run, { stdout: '4 0 0 0\n', stderr: '' })
})
