/** "deleteSubscription" → "delete subscription"; method and path of REST stay. */
export function operationWords(operation: string): string {
  return /^\w+$/.test(operation)
    ? operation.replace(/\B[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`)
    : operation;
}
