// Servers of the test kit (testkit/src/serve), programs in processes of their own, and what tests await.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { Client } from 'fairlock'

const FOLDER = fileURLToPath(new URL('..', import.meta.url))
const TESTKIT = process.env.FAIRLOCK_TESTKIT ?? `${FOLDER}/../../target/debug/fairlock-testkit`

/** The lines of a stream, one after the other. */
export function lines(stream) {
  const all = createInterface(stream)[Symbol.asyncIterator]()
  return async () => (await all.next()).value
}

/** What the test kit starts. All of it ends with the test. */
export class Kit {
  #process = spawn(TESTKIT, { stdio: ['pipe', 'pipe', 'inherit'] })
  #answer = lines(this.#process.stdout)
  #last = Promise.resolve()

  constructor(t) {
    t.after(() => this.#process.stdin.end())
  }

  /** One request after the other, as `await kit.do('kill', { of: server })`. */
  do(what, fields = {}) {
    const ids = Object.entries(fields).map(([name, value]) => [name, value?.id ?? value])
    this.#process.stdin.write(`${JSON.stringify({ do: what, ...Object.fromEntries(ids) })}\n`)
    this.#last = this.#last.then(this.#answer).then(line => {
      const { ok, error } = JSON.parse(line ?? '{"error": "the test kit has ended"}')
      if (error) throw new Error(`${what}: ${error}`)
      return ok
    })
    return this.#last
  }

  async server(setup) {
    const server = await this.do('server', setup)
    return { ...server, url: `unix://${server.socket}` }
  }
}

/** A server, and a client of it. */
export async function serverAndClient(t, options) {
  const kit = new Kit(t)
  const server = await kit.server()
  const client = new Client(server.url, options)
  t.after(() => client.close())
  return { kit, server, client }
}

/** A program of this package in a process of its own: it has `fairlock`, a client of the server, and `say`. */
export function program(t, url, source, { flags = [], execPath = process.execPath } = {}) {
  const prelude = `
    import * as fairlock from 'fairlock'
    import { setTimeout as sleep } from 'node:timers/promises'
    const client = new fairlock.Client(process.argv[1])
    const say = (...words) => process.stdout.write(words.join(' ') + '\\n')
    const block = ms => { const until = performance.now() + ms; while (performance.now() < until); }
  `
  const child = spawn(execPath, [...flags, '--input-type=module', '--eval', prelude + source, url], { cwd: FOLDER })
  t.after(() => child.kill('SIGKILL'))
  let errors = ''
  child.stderr.on('data', data => (errors += data))
  const line = lines(child.stdout)
  const closed = once(child, 'close')
  return {
    child,
    line,
    say: words => child.stdin.write(`${words}\n`),
    async heard(expected) {
      const found = await line()
      assert.equal(found, expected, errors)
    },
    /** How it ended. */
    async ended() {
      const [code, signal] = await closed
      return { code, signal, errors }
    },
  }
}

/** Asks until the answer is true. The bound only tells "works" from "hangs". */
export async function eventually(what, ask) {
  const until = performance.now() + 60_000
  while (!(await ask())) {
    assert.ok(performance.now() < until, `not within a minute: ${what}`)
    await new Promise(resolve => setTimeout(resolve, 5))
  }
}

/** Resolves when so many wait for the lock. */
export const waiting = (lock, count) => eventually(`${count} wait`, async () => (await lock.inspect()).waiting === count)

/** Resolves when the signal is aborted. */
export const aborted = signal => signal.aborted || once(signal, 'abort')
