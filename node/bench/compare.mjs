// What a lock costs a Node program: fairlock beside redlock and redis-semaphore, in one run.
//
//     make bench-node                                 installs the other locks into node/target, and runs this
//     node bench/compare.mjs [ROUNDS]                 where they are installed
//
// For each lock, medians over rounds in which all locks take turns, so that a busy moment of the machine hits all:
//
//     cycle      acquire and release of a free lock, awaited
//     CPU        what this process computes for that, on all its threads
//     hand-off   from the release in one process to the grant in another one that waits
//     a grant    of twenty that wait in this process, from the first to the last grant
//     in order   how many of these grants went to the one that waited longest
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { Kit } from '../test/support/kit.mjs'

const CYCLES = 500
const CROWD = 20
const HANDED = 20
const FOREVER = { retryCount: -1 }

/** For each lock what acquires it, and gives what releases it. Their pauses are the usual ones, but they never give up. */
const LOCKS = {
  async fairlock(path) {
    const { Client } = await import('fairlock')
    const client = new Client(`unix://${path}`)
    return name => client.lock(name).acquire().then(lease => () => lease.release())
  },
  async 'redis-semaphore'(path) {
    const [{ Mutex }, { default: Redis }] = [await import('redis-semaphore'), await import('ioredis')]
    const redis = new Redis(path)
    return async name => {
      const mutex = new Mutex(redis, name, { acquireTimeout: 2 ** 31 })
      await mutex.acquire()
      return () => mutex.release()
    }
  },
  async 'redlock 4'(path) {
    const [{ default: Redlock }, { default: Redis }] = [await import('redlock'), await import('ioredis')]
    const redlock = new Redlock([new Redis(path)], FOREVER)
    return async name => {
      const lock = await redlock.lock(name, 30_000)
      return () => lock.unlock()
    }
  },
  async 'redlock 5 beta'(path) {
    const [{ default: Redlock }, { default: Redis }] = [await import('redlock5'), await import('ioredis')]
    const redlock = new Redlock([new Redis(path)], FOREVER)
    return async name => {
      const lock = await redlock.acquire([name], 30_000)
      return () => lock.release()
    }
  },
}

const now = () => Number(process.hrtime.bigint()) / 1e3
const median = numbers => [...numbers].sort((a, b) => a - b)[numbers.length >> 1]

async function cycles(acquire, name) {
  const times = []
  const before = process.cpuUsage()
  for (let cycle = 0; cycle < CYCLES; cycle++) {
    const start = now()
    await (await acquire(name))()
    times.push(now() - start)
  }
  const { user, system } = process.cpuUsage(before)
  return { cycle: median(times), CPU: (user + system) / CYCLES }
}

/** Twenty that have begun to wait one after the other. */
async function crowd(acquire, name) {
  const release = await acquire(name)
  const order = []
  const all = []
  for (let number = 0; number < CROWD; number++) {
    all.push(acquire(name).then(release => (order.push([number, now()]), release())))
    await sleep(3)
  }
  await release()
  await Promise.all(all)
  const inOrder = order.filter(([number], place) => number === place).length
  return { 'a grant': (order.at(-1)[1] - order[0][1]) / (CROWD - 1), 'in order': inOrder / CROWD }
}

async function handOff(acquire, kind, path, name) {
  const other = fork(import.meta.filename, ['waiter', kind, path, name])
  await once(other, 'message')
  const times = []
  for (let turn = 0; turn < HANDED; turn++) {
    const release = await acquire(name)
    other.send('wait')
    // Until it waits; a lock that polls is then anywhere in its pause.
    await sleep(30 + 20 * Math.random())
    const start = now()
    await release()
    times.push((await once(other, 'message'))[0] - start)
  }
  other.disconnect()
  return { 'hand-off': median(times) }
}

async function waiter(kind, path, name) {
  const acquire = await LOCKS[kind](path)
  await (await acquire(`${name} warm`))()
  process.on('message', async () => {
    const release = await acquire(name)
    const got = now()
    await release()
    process.send(got)
  })
  process.on('disconnect', () => process.exit())
  process.send('ready')
}

async function main(rounds) {
  const ends = []
  const { socket } = await new Kit({ after: end => ends.push(end) }).server()
  const figures = {}
  const made = {}
  for (const kind of Object.keys(LOCKS)) made[kind] = await LOCKS[kind](socket)
  for (let round = 0; round <= rounds; round++) {
    for (const [kind, acquire] of Object.entries(made)) {
      const measured = { ...await cycles(acquire, `${kind} free`), ...await handOff(acquire, kind, socket, `${kind} handed`), ...await crowd(acquire, `${kind} crowd`) }
      // The first one warms up.
      if (round > 0) for (const [what, figure] of Object.entries(measured)) ((figures[kind] ??= {})[what] ??= []).push(figure)
    }
  }
  console.log(`Node ${process.version}, medians of ${rounds} rounds; µs, and per cent of the grants\n`)
  const whats = Object.keys(figures.fairlock)
  console.log(`| |${whats.join(' | ')} |\n|---|${whats.map(() => '---').join('|')}|`)
  for (const [kind, of] of Object.entries(figures)) {
    const shown = whats.map(what => (what === 'in order' ? `${Math.round(100 * median(of[what]))} %` : Math.round(median(of[what]))))
    console.log(`| ${kind} | ${shown.join(' | ')} |`)
  }
  for (const end of ends) end()
  process.exit()
}

if (process.argv[2] === 'waiter') await waiter(...process.argv.slice(3))
else await main(Number(process.argv[2] ?? 5))
