'use strict'

// The errors. All are a FairlockError; their messages say what was found and what to change.
const { getSystemErrorName } = require('node:util')

class FairlockError extends Error {
  constructor(message, { causes = [], failure: _failure, message: _message, ...fields } = {}) {
    const [first, ...others] = causes
    super(message, first && { cause: causeOf(first, others) })
    Object.assign(this, fields)
  }
}

/** As Node tells errors of the system: with a code such as ECONNREFUSED. */
function causeOf({ message, errno }, [next, ...others]) {
  const cause = new Error(message, next && { cause: causeOf(next, others) })
  // It was made in the native half: the lines of this file say nothing.
  cause.stack = String(cause)
  if (errno) Object.assign(cause, { errno: -errno, code: getSystemErrorName(-errno) })
  return cause
}

/** A class with its code: FAIRLOCK_ and the name without `Error`. */
function error(name, base = FairlockError) {
  const made = { [name]: class extends base {} }[name]
  const code = name === 'FairlockError' ? 'FAIRLOCK' : `FAIRLOCK${name.replace(/Error$/, '').replace(/[A-Z]/g, '_$&')}`
  return named(made, name, code.toUpperCase())
}

function named(made, name, code) {
  Object.defineProperty(made.prototype, 'name', { value: name, configurable: true, writable: true })
  Object.defineProperty(made.prototype, 'code', { value: code, configurable: true, writable: true })
  return made
}

named(FairlockError, 'FairlockError', 'FAIRLOCK')
const ConnectionError = error('ConnectionError')
const errors = {
  FairlockError,
  TimeoutError: error('TimeoutError'),
  QueueFullError: error('QueueFullError'),
  NotTakenError: error('NotTakenError'),
  LeaseBrokenError: error('LeaseBrokenError'),
  LockLostError: error('LockLostError'),
  ReleaseUnknownError: error('ReleaseUnknownError'),
  InvalidOptionError: error('InvalidOptionError'),
  ConnectionError,
  AuthenticationError: error('AuthenticationError', ConnectionError),
  MissingRightError: error('MissingRightError', ConnectionError),
  UnavailableError: error('UnavailableError', ConnectionError),
  RefusedError: error('RefusedError'),
  ClosedError: error('ClosedError'),
}

/** What the native half says of a failure, as an error whose stack begins with the caller of this function. */
function errorOf(failure, below = errorOf) {
  const made = new errors[`${failure.failure}Error`](failure.message, failure)
  Error.captureStackTrace(made, below)
  return made
}

const isFailure = value => typeof value?.failure === 'string'

/** A value of the native half, unless it is a failure. */
function checked(value) {
  if (isFailure(value)) throw errorOf(value, checked)
  return value
}

module.exports = { errors, errorOf, isFailure, checked }
