import { type ErrorCode, errorTable } from "../../errors.ts"

/** Problems that a submitted workflow can have. */
export const documentErrors: readonly ErrorCode[] = [
  ...(Object.keys(errorTable) as ErrorCode[]).filter(code => code.startsWith("E1")),
  "E426",
  "E502",
  "E635",
  "E636",
]
