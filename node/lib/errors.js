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

/** The code of an error is FAIRLOCK_ and its name without `Error`. */
function named(made, name) {
  const code = name.replace(/^Fairlock|Error$/g, '').replace(/[A-Z]/g, '_$&')
  for (const [key, value] of Object.entries({ name, code: `FAIRLOCK${code.toUpperCase()}` })) {
    Object.defineProperty(made.prototype, key, { value, configurable: true, writable: true })
  }
  return { [name]: made }
}

const kinds = (base, ...names) => names.map(name => named({ [name]: class extends base {} }[name], name))
const errors = Object.assign(
  named(FairlockError, 'FairlockError'),
  ...kinds(
    FairlockError, 'TimeoutError', 'QueueFullError', 'NotTakenError', 'LeaseBrokenError', 'LockLostError',
    'ReleaseUnknownError', 'InvalidOptionError', 'ConnectionError', 'RefusedError', 'ClosedError',
  ),
)
Object.assign(errors, ...kinds(errors.ConnectionError, 'AuthenticationError', 'MissingRightError', 'UnavailableError'))

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
