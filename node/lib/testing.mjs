import testing from './testing.js'

export const { LockService } = testing
