/** Makes an embedded database and ends (make-pglite.ts). Whoever started it is gone: then it ends at once. */
import { makeAt } from "./make-pglite.ts"

process.once("disconnect", () => process.exit(1))
await makeAt(process.argv[2] ?? "")
process.exit(0)
