'use strict'

// The options that people give. What is misspelt or of another type would be left out, so it is refused.
const { errors } = require('./errors.js')

const isTime = value => typeof value === 'number' && value >= 0 && Number.isFinite(value)
const isText = value => typeof value === 'string' && value.isWellFormed()
const isWhole = (value, least, most) => Number.isInteger(value) && value >= least && value <= most

/** For each kind of value what it must be, and whether it is. */
const KINDS = {
  time: ['a finite number of milliseconds from 0 on', isTime],
  timeout: ['a number of milliseconds from 0 on: a try that does not wait is tryAcquire()', value => isTime(value) || value === Infinity],
  text: ['a text', isText],
  texts: ['an array of texts', value => Array.isArray(value) && value.every(isText)],
  flag: ['true or false', value => typeof value === 'boolean'],
  count: ['a whole number from 0 on', value => isWhole(value, 0, 2 ** 32 - 1)],
  slots: ['a whole number from 1 to 1000', value => isWhole(value, 1, 1000)],
  token: ['a fencing token, which is a whole number', value => isWhole(value, 0, Number.MAX_SAFE_INTEGER)],
  tls: ['true or false; its certificates are caFile, certificateFile and keyFile', value => typeof value === 'boolean'],
  signal: ['an AbortSignal', value => typeof value?.addEventListener === 'function' && typeof value.aborted === 'boolean'],
  function: ['a function', value => typeof value === 'function'],
}

const CLIENT = {
  url: 'text', sentinels: 'texts', master: 'text', nodes: 'texts', user: 'text', password: 'text', passwordFile: 'text',
  credentials: 'function', tls: 'tls', caFile: 'text', certificateFile: 'text', keyFile: 'text', prefix: 'text',
  label: 'text',
}
const LOCK = {
  slots: 'slots', lease: 'time', renewEvery: 'time', manualRenewal: 'flag', notice: 'time', liveness: 'time',
  buffer: 'time', maxHold: 'time', confirmGrants: 'flag', maxWaiting: 'count', owner: 'text', label: 'text',
  replicas: 'count',
}
const ACQUIRE = { timeout: 'timeout', signal: 'signal', label: 'text', owner: 'text' }

function invalid(message) {
  return new errors.InvalidOptionError(message)
}

function shown(value) {
  if (typeof value === 'string') return JSON.stringify(value)
  return typeof value === 'object' && value !== null ? `an object of ${value.constructor?.name}` : String(value)
}

/** A value of this kind. */
function value(what, kind, given) {
  const [must, is] = KINDS[kind]
  if (!is(given)) throw invalid(`${what} is ${shown(given)}, but must be ${must}`)
  return given
}

/** A copy of the options that are given, checked. */
function options(kinds, given = {}) {
  if (typeof given !== 'object' || given === null) {
    throw invalid(`the options are ${shown(given)}, but must be an object such as { ${Object.keys(kinds)[0]}: … }`)
  }
  const checked = {}
  for (const [name, option] of Object.entries(given)) {
    if (!Object.hasOwn(kinds, name)) throw invalid(`there is no option ${name}: there are ${Object.keys(kinds).join(', ')}`)
    if (option !== undefined) checked[name] = value(name, kinds[name], option)
  }
  return checked
}

/** Settings of a client: the URL by itself, or among them. Refuses those of which one would be left out. */
function settings(url, given) {
  const isObject = typeof url === 'object' && url !== null && !(url instanceof URL)
  if (isObject && typeof url.duplicate === 'function') {
    throw invalid('a client of another library cannot be used: give its URL, as in redis://host:6379')
  }
  if (isObject && ('host' in url || 'socket' in url)) {
    throw invalid("there is no option host, port or socket: give a URL, as in { url: 'redis://host:6379' }")
  }
  const all = options(CLIENT, isObject ? { ...url, ...given } : { url: url?.toString(), ...given })
  const found = (...names) => names.filter(name => all[name] !== undefined)
  for (const names of [['url', 'sentinels', 'nodes'], ['password', 'passwordFile', 'credentials']]) {
    if (found(...names).length > 1) {
      throw invalid(`only one of ${names.join(', ')} can be given, and not ${found(...names).join(' and ')}`)
    }
  }
  for (const pair of [['sentinels', 'master'], ['certificateFile', 'keyFile']]) {
    if (found(...pair).length === 1) {
      throw invalid(`${pair.join(' and ')} belong together, but only ${found(...pair)[0]} is given`)
    }
  }
  if (found('user').length && !found('password', 'passwordFile').length) {
    throw invalid('user is given without password or passwordFile; credentials gives its own user')
  }
  return all
}

/** What an acquire is given: the signal, and what the native half gets. */
function request(given) {
  const { signal, ...native } = options(ACQUIRE, given)
  if (native.timeout === Infinity) delete native.timeout
  return { signal, native }
}

module.exports = { LOCK, options, settings, request, value, invalid }
