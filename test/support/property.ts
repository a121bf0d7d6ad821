/** fast-check with the seed of all tests (seed.ts). Tests import it from here. */
import fc from "fast-check"
import { seed } from "./seed.ts"

fc.configureGlobal({ seed })

export default fc
