/** The handlers that every worker has (S8). */
import type { Handler } from "../handler.ts"
import { HttpClient } from "../http/client.ts"
import type { WorkerSettings } from "../settings.ts"
import { callExternalService, type SubmissionRulesOf } from "./call-external-service.ts"
import { llmService } from "./llm-service.ts"
import { input, output, pipeline, sleep, transform, waitForSignalHandler, workflow } from "./plain.ts"

export function builtinHandlers(
  settings: Pick<WorkerSettings, "allowPrivateAddresses">,
  submissionRules?: SubmissionRulesOf,
): Handler[] {
  const http = new HttpClient(settings)
  return [
    input,
    output,
    transform,
    sleep,
    waitForSignalHandler,
    workflow,
    pipeline,
    callExternalService(http, submissionRules),
    llmService(http),
  ]
}
