/** What of a disk is used; null while nobody has told it. */
export function usedOf({
  free_bytes,
  total_bytes,
}: {
  free_bytes: number | null;
  total_bytes: number | null;
}): { bytes: number; share: number } | null {
  if (free_bytes === null || total_bytes === null || total_bytes <= 0) return null;
  const bytes = total_bytes - free_bytes;
  return { bytes, share: bytes / total_bytes };
}
