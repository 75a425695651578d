import fairlock = require('fairlock')
import testing = require('fairlock/testing')

const client = new fairlock.Client()
client.lock('a').acquire().then(lease => lease.extend(1000))
export const service = new testing.LockService()
