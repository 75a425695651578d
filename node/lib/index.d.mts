export * from './index.js'
import fairlock = require('./index.js')
export default fairlock
