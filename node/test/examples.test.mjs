// The examples do what they say. Their syntax is that of Node 24.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { test } from 'node:test'
import { Client } from 'fairlock'
import { eventually, Kit, lines, waiting } from './support/kit.mjs'

const skip = Number(process.versions.node.split('.')[0]) < 24 && 'the syntax of the examples is that of Node 24'

/** A server, a client, and a way to start an example. */
async function stage(t) {
  const kit = new Kit(t)
  const { port } = await kit.server({ tcp: true })
  const url = `redis://127.0.0.1:${port}/`
  const client = new Client(url)
  t.after(() => client.close())
  const start = (name, env) => {
    const file = new URL(`../examples/${name}.mjs`, import.meta.url).pathname
    const stdio = ['ignore', 'pipe', 'inherit']
    const child = spawn(process.execPath, [file], { env: { ...process.env, REDIS_URL: url, ...env }, stdio })
    t.after(() => child.kill('SIGKILL'))
    return { child, line: lines(child.stdout), exit: once(child, 'exit') }
  }
  return { url, client, start }
}

test('a job queue runs two jobs of a customer at once', { skip }, async t => {
  const { url, client, start } = await stage(t)
  const { Queue, QueueEvents } = await import('bullmq')
  const connection = { url, maxRetriesPerRequest: null }
  const queue = new Queue('exports', { connection })
  const events = new QueueEvents('exports', { connection })
  await events.waitUntilReady()
  const workers = [start('job-queue'), start('job-queue')]
  for (const { line } of workers) assert.equal(await line(), 'ready')
  const jobs = []
  let most = 0
  for (let number = 0; number < 12; number++) {
    jobs.push(await queue.add('export', { customer: number < 8 ? 'big' : 'small', ms: 50 }))
  }
  const watch = client.semaphore('exports:big', 2)
  const results = Promise.all(jobs.map(job => job.waitUntilFinished(events)))
  let over = false
  results.finally(() => (over = true))
  while (!over) most = Math.max(most, (await watch.inspect()).holders.length)
  assert.equal(most, 2)
  assert.deepEqual([...new Set(await results)].sort(), ['big', 'small'].flatMap(who => [0, 1].map(n => `${who} by account ${n}`)))
  for (const { child, exit } of workers) {
    child.kill('SIGTERM')
    assert.deepEqual(await exit, [0, null])
  }
  await Promise.all([queue.close(), events.close()])
})

test('a handler makes reports in turn, answers 503, and forgets who hangs up', { skip }, async t => {
  const { client, start } = await stage(t)
  const { child, line, exit } = start('http-handler', { PORT: '0', PATIENCE: '700', WORK: '10' })
  const url = `http://127.0.0.1:${await line()}/`
  const lock = client.lock('reports')
  assert.deepEqual((await Promise.all([1, 2, 3].map(() => fetch(url)))).map(({ status }) => status), [200, 200, 200])
  const lease = await lock.acquire()
  const busy = await fetch(url)
  assert.equal(busy.status, 503)
  assert.equal(busy.headers.get('retry-after'), '1')
  assert.match(await busy.text(), /^not granted within/)
  const hangUp = new AbortController()
  const patient = start('http-handler', { PORT: '0', PATIENCE: '600000' })
  const gone = fetch(`http://127.0.0.1:${await patient.line()}/`, { signal: hangUp.signal })
  await waiting(lock, 1)
  hangUp.abort()
  await assert.rejects(gone, { name: 'AbortError' })
  await waiting(lock, 0)
  await lease.release()
  child.kill('SIGTERM')
  patient.child.kill('SIGTERM')
  assert.deepEqual([...(await exit), ...(await patient.exit)], [0, null, 0, null])
})

test('of two cron jobs one does the work', { skip }, async t => {
  const { client, start } = await stage(t)
  const first = start('cron', { WORK: '600000' })
  assert.match(await first.line(), /^backup \d+$/)
  const second = start('cron')
  assert.equal(await second.line(), 'another machine is at it')
  assert.deepEqual(await second.exit, [0, null])
  const { holders } = await client.lock('backup:nightly').inspect()
  assert.equal(holders.length, 1)
})

test('a leader is followed by the first in line', { skip }, async t => {
  const { client, start } = await stage(t)
  const seat = client.lock('scheduler:leader')
  const first = start('leader', { NAME: 'first' })
  assert.match(await first.line(), /^leads/)
  const second = start('leader', { NAME: 'second' })
  await waiting(seat, 1)
  const third = start('leader', { NAME: 'third' })
  await waiting(seat, 2)
  first.child.kill('SIGTERM')
  assert.match(await second.line(), /^leads/)
  assert.deepEqual(await first.exit, [0, null])
  const { holders } = await seat.inspect()
  assert.equal(holders[0].label, 'second')
  // An operator breaks its lease: it stands in line again, behind the third.
  await seat.break(holders[0].token)
  assert.equal(await second.line(), 'lost: broken')
  assert.match(await third.line(), /^leads/)
  await eventually('it waits', async () => (await seat.inspect()).queue[0]?.label === 'second')
  second.child.kill('SIGTERM')
  third.child.kill('SIGTERM')
  assert.deepEqual([...(await second.exit), ...(await third.exit)], [0, null, 0, null])
})
