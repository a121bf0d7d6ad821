/** The handlers every workflow can use without registering anything. */
import { type HandlerCatalog, handlerCatalog } from "../../definition/handler.ts"
import { builtinSpecs } from "./specs.ts"

export function builtinCatalog(): HandlerCatalog {
  return handlerCatalog(builtinSpecs)
}
