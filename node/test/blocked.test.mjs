// Holders whose event loop does nothing for longer than their lease. Their minute costs nobody a minute: it runs beside
// the other files.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { program, serverAndClient } from './support/kit.mjs'

/** A few seconds: so many that a busy machine renews in time. */
const OPTIONS = { lease: 4000, liveness: 3000 }
const LOCK = `client.lock('lock', ${JSON.stringify(OPTIONS)})`

/** A holder that hangs for so long, with two in line: another process, and this one. */
async function hangs(t, ms, hang, prepare = '') {
  const { server, client } = await serverAndClient(t)
  const lock = client.lock('lock', OPTIONS)
  const holder = program(t, server.url, `
    const lease = await ${LOCK}.acquire()
    ${prepare}
    say('holds')
    const since = performance.now()
    ${hang}
    const hung = performance.now() - since
    lease.check()
    say('goes on', lease.signal.aborted, hung >= ${ms})
    await lease.release()`)
  await holder.heard('holds')
  const other = program(t, server.url, `
    const place = await ${LOCK}.enqueue()
    say('waits')
    const lease = await place.granted()
    say(lease.token)
    await lease.release()`)
  await other.heard('waits')
  const place = await lock.enqueue()
  const { holders: [{ token }] } = await lock.inspect()
  await holder.heard('goes on false true')
  const mine = await place.granted()
  const tokens = [token, Number(await other.line()), mine.token]
  assert.deepEqual(tokens, [...tokens].sort((a, b) => a - b))
  await mine.release()
  for (const { ended } of [holder, other]) assert.deepEqual(await ended(), { code: 0, signal: null, errors: '' })
}

/** A debugger: a worker that is attached to the main thread, and lets it go on after three leases. */
const DEBUGGER = `
  const { Session } = require('node:inspector')
  const { parentPort } = require('node:worker_threads')
  const session = new Session()
  session.connectToMainThread()
  session.on('Debugger.paused', () => setTimeout(() => session.post('Debugger.resume'), ${3 * OPTIONS.lease}))
  session.post('Debugger.enable', () => parentPort.postMessage('attached'))
  // It ends with the process: what it waits for keeps no worker alive.
  setInterval(() => {}, 60_000)`

describe('a lease survives, and those in line get it in their order, though its event loop', { concurrency: true }, () => {
  test('is blocked for a minute', t => hangs(t, 60_000, 'Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 60_000)'))

  test('is stopped at a breakpoint for three leases', t => hangs(t, 3 * OPTIONS.lease, 'debugger', `
    const { Worker } = await import('node:worker_threads')
    const worker = new Worker(${JSON.stringify(DEBUGGER)}, { eval: true, execArgv: [] })
    await new Promise(resolve => worker.once('message', resolve))
    worker.unref()`))
})
