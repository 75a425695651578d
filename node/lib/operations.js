'use strict'

// Operations of the native half as promises, and what keeps the event loop going.
const native = require('./native.js')
const { errorOf, isFailure } = require('./errors.js')

const underWay = new Map()
let last = 0
let holds = 0

// Called when the native half says that an operation is to be polled again. Nothing is thrown here: what goes wrong is a
// rejected promise of whoever has called.
const eventLoop = new native.EventLoop(number => void underWay.get(number)?.())

/** Keeps the event loop from ending until the function is called that this returns. */
function hold() {
  let held = true
  if (holds++ === 0) eventLoop.hold(true)
  return () => {
    if (held && --holds === 0) eventLoop.hold(false)
    held = false
  }
}

/** For each signal what is to be told: one listener of ours, however many calls have it. More would make Node warn. */
const told = new WeakMap()

/** Calls this when the signal is aborted, unless the function is called before that this returns. */
function onAbort(signal, abort) {
  let all = told.get(signal)
  if (!all) {
    told.set(signal, (all = new Set()))
    signal.addEventListener('abort', () => { for (const abort of all) abort() }, { once: true })
  }
  all.add(abort)
  return () => all.delete(abort)
}

/** What an operation brings. Errors are made here, where their stack has the callers that await this. */
async function run(operation, options) {
  const value = await begun(operation, options)
  if (isFailure(value)) throw errorOf(value, run)
  return value
}

/**
 * Calls this with the error or the value that an operation brings, unless the function is called before that this
 * returns: it gives the operation up. The event loop may end meanwhile.
 */
function watch(operation, end) {
  do last = (last + 1) >>> 0
  while (underWay.has(last))
  const number = last
  const poll = () => {
    let value
    try {
      if (!operation.poll(eventLoop, number)) return
      value = operation.take()
    } catch (error) {
      underWay.delete(number)
      end(error)
      return
    }
    underWay.delete(number)
    end(null, value)
  }
  underWay.set(number, poll)
  poll()
  return () => {
    if (underWay.delete(number)) operation.cancel()
  }
}

/**
 * The promise of an operation, which keeps the event loop going.
 *
 * `make` makes what the caller gets, in the same step in which it is known that nobody has aborted: a grant that crosses
 * an abort is released, and a lease that was made reaches its caller.
 */
function begun(operation, { signal, make = value => value } = {}) {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) {
      operation.cancel()
      reject(signal.reason)
      return
    }
    const unhold = hold()
    const abort = () => {
      unhold()
      stop()
      reject(signal.reason)
    }
    const unheard = signal && onAbort(signal, abort)
    const stop = watch(operation, (error, value) => {
      unhold()
      unheard?.()
      if (error) reject(error)
      else resolve(isFailure(value) ? value : make(value))
    })
  })
}

module.exports = { run, watch, hold, onAbort }
