import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Enumeration;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.bookkeeper.bookie.BookieShell;
import org.apache.bookkeeper.client.BKException;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.BookKeeper.DigestType;
import org.apache.bookkeeper.client.LedgerEntry;
import org.apache.bookkeeper.client.LedgerHandle;
import org.apache.bookkeeper.client.LedgerHandleAdv;
import org.apache.bookkeeper.client.api.LastConfirmedAndEntry;
import org.apache.bookkeeper.client.api.WriteFlag;
import org.apache.bookkeeper.client.api.WriteHandle;
import org.apache.bookkeeper.conf.ClientConfiguration;
import org.apache.bookkeeper.conf.ServerConfiguration;
import org.apache.bookkeeper.replication.AutoRecoveryMain;
import org.apache.bookkeeper.util.EntryFormatter;
import org.apache.bookkeeper.util.LedgerIdFormatter;

/**
 * Apache's ledger client and shell, driven from outside: one command a line on standard input, each run in a thread of
 * its own. "TAG VERB ARGUMENT…" is answered "=TAG ok RESULT" or "=TAG error CODE TEXT", where CODE is BKException's.
 * Other lines of the output are what the shell and the log print.
 */
public final class LedgerDriver {
    private static final int IN_FLIGHT = 1000;
    private final Map<String, BookKeeper> clients = new ConcurrentHashMap<>();
    private final Map<String, LedgerHandle> handles = new ConcurrentHashMap<>();
    private AutoRecoveryMain autoRecovery;

    public static void main(String[] arguments) throws Exception {
        LedgerDriver driver = new LedgerDriver();
        ExecutorService threads = Executors.newCachedThreadPool();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            threads.execute(() -> answer(words[0], driver, Arrays.copyOfRange(words, 1, words.length)));
        }
        Runtime.getRuntime().halt(0);
    }

    private static void answer(String tag, LedgerDriver driver, String[] words) {
        String text;
        try {
            text = "ok " + driver.run(words);
        } catch (Throwable error) {
            Throwable cause = error instanceof ExecutionException ? error.getCause() : error;
            int code = cause instanceof BKException ? ((BKException) cause).getCode() : Integer.MIN_VALUE;
            text = "error " + code + " " + String.valueOf(cause).replace('\n', ' ');
        }
        synchronized (System.out) {
            System.out.println("=" + tag + " " + text);
            System.out.flush();
        }
    }

    private Object run(String[] w) throws Exception {
        switch (w[0]) {
            case "client":
                clients.put(w[1], connect(w));
                return "";
            case "create":
            case "create-adv":
                return create(w);
            case "create-deferred":
                return createDeferred(w);
            case "open":
                DigestType type = DigestType.valueOf(w[4]);
                long id = Long.parseLong(w[3]);
                LedgerHandle opened = w[6].equals("recover")
                    ? clients.get(w[1]).openLedger(id, type, secret(w[5]))
                    : clients.get(w[1]).openLedgerNoRecovery(id, type, secret(w[5]));
                handles.put(w[2], opened);
                return state(opened);
            case "delete":
                clients.get(w[1]).deleteLedger(Long.parseLong(w[2]));
                return "";
            case "metadata":
                return clients.get(w[1]).getLedgerMetadata(Long.parseLong(w[2])).get();
            case "bookie-info":
                return clients.get(w[1]).getBookieInfo().size();
            case "shell":
                return shell(w);
            case "auto-recovery":
                autoRecovery = new AutoRecoveryMain(server(w));
                autoRecovery.start();
                return "";
            case "auto-recovery-stop":
                autoRecovery.shutdown();
                return "";
            default:
                return use(handles.get(w[1]), w);
        }
    }

    private Object use(LedgerHandle handle, String[] w) throws Exception {
        switch (w[0]) {
            case "add":
                return add(handle, Integer.parseInt(w[2]), Integer.parseInt(w[3]));
            case "add-at":
                return addAt((LedgerHandleAdv) handle, w);
            case "read":
                return seen(handle.readEntries(Long.parseLong(w[2]), Long.parseLong(w[3])));
            case "read-unconfirmed":
                return seen(handle.readUnconfirmedEntries(Long.parseLong(w[2]), Long.parseLong(w[3])));
            case "batch-read":
                return seen(
                    handle.batchReadEntries(Long.parseLong(w[2]), Integer.parseInt(w[3]), Long.parseLong(w[4])));
            case "last":
                return handle.readLastConfirmed();
            case "try-last":
                return handle.tryReadLastConfirmed();
            case "explicit-last":
                return handle.readExplicitLastConfirmed();
            case "long-poll":
                try (LastConfirmedAndEntry found = handle.readLastAddConfirmedAndEntryAsync(
                        Long.parseLong(w[2]), Long.parseLong(w[3]), Boolean.parseBoolean(w[4])).get()) {
                    String entry = found.hasEntry()
                        ? found.getEntry().getEntryId() + " " + hash(found.getEntry().getEntryBytes()) : "none";
                    return found.getLastAddConfirmed() + " " + entry;
                }
            case "force":
                handle.force().get();
                return "";
            case "state":
                return state(handle);
            case "close":
                handle.close();
                return state(handle);
            default:
                throw new IllegalArgumentException("no such verb: " + w[0]);
        }
    }

    /** client NAME URI V2|V3 [SETTING=VALUE…] */
    private static BookKeeper connect(String[] w) throws Exception {
        ClientConfiguration conf = configured(new ClientConfiguration(), w, 4);
        conf.setMetadataServiceUri(w[2]);
        conf.setUseV2WireProtocol(w[3].equals("V2"));
        return new BookKeeper(conf);
    }

    private static ClientConfiguration configured(ClientConfiguration conf, String[] w, int from) {
        for (int i = from; i < w.length; i++) {
            conf.setProperty(w[i].substring(0, w[i].indexOf('=')), w[i].substring(w[i].indexOf('=') + 1));
        }
        return conf;
    }

    /** create CLIENT HANDLE E WQ AQ DIGEST PASSWORD [KEY=VALUE…], which is custom metadata. */
    private Object create(String[] w) throws Exception {
        Map<String, byte[]> custom = new ConcurrentHashMap<>();
        for (int i = 8; i < w.length; i++) {
            custom.put(w[i].substring(0, w[i].indexOf('=')), secret(w[i].substring(w[i].indexOf('=') + 1)));
        }
        BookKeeper client = clients.get(w[1]);
        int e = Integer.parseInt(w[3]);
        int wq = Integer.parseInt(w[4]);
        int aq = Integer.parseInt(w[5]);
        DigestType type = DigestType.valueOf(w[6]);
        LedgerHandle made = w[0].equals("create")
            ? client.createLedger(e, wq, aq, type, secret(w[7]), custom)
            : client.createLedgerAdv(e, wq, aq, type, secret(w[7]), custom);
        handles.put(w[2], made);
        return made.getId();
    }

    private Object createDeferred(String[] w) throws Exception {
        WriteHandle made = clients.get(w[1]).newCreateLedgerOp()
            .withEnsembleSize(Integer.parseInt(w[3])).withWriteQuorumSize(Integer.parseInt(w[4]))
            .withAckQuorumSize(Integer.parseInt(w[5])).withWriteFlags(WriteFlag.DEFERRED_SYNC)
            .withDigestType(org.apache.bookkeeper.client.api.DigestType.valueOf(w[6]))
            .withPassword(secret(w[7])).execute().get();
        handles.put(w[2], (LedgerHandle) made);
        return made.getId();
    }

    private static byte[] secret(String word) {
        return word.equals("-") ? new byte[0] : word.getBytes(StandardCharsets.UTF_8);
    }

    /** COUNT entries pipelined; the first and last id, or the first failure. */
    private static Object add(LedgerHandle handle, int count, int size) throws Exception {
        CompletableFuture<String> done = new CompletableFuture<>();
        Semaphore room = new Semaphore(IN_FLIGHT);
        AtomicInteger left = new AtomicInteger(count);
        AtomicLong last = new AtomicLong(-1);
        long first = handle.getLastAddPushed() + 1;
        for (int i = 0; i < count && !done.isDone(); i++) {
            room.acquire();
            handle.asyncAddEntry(payload(first + i, size), (rc, h, entry, context) -> {
                room.release();
                last.accumulateAndGet(entry, Math::max);
                if (rc != BKException.Code.OK) {
                    done.completeExceptionally(BKException.create(rc));
                } else if (left.decrementAndGet() == 0) {
                    done.complete(first + " " + last);
                }
            }, null);
        }
        return done.get();
    }

    /** add-at HANDLE SIZE ENTRY… in that order, all in flight at once; the ids in the order of their answers. */
    private static Object addAt(LedgerHandleAdv handle, String[] w) throws Exception {
        List<Long> answered = new ArrayList<>();
        CompletableFuture<Void> done = new CompletableFuture<>();
        for (int i = 3; i < w.length; i++) {
            long id = Long.parseLong(w[i]);
            handle.asyncAddEntry(id, payload(id, Integer.parseInt(w[2])), (rc, h, entry, context) -> {
                synchronized (answered) {
                    answered.add(entry);
                    if (rc != BKException.Code.OK) {
                        done.completeExceptionally(BKException.create(rc));
                    } else if (answered.size() == w.length - 3) {
                        done.complete(null);
                    }
                }
            }, null);
        }
        done.get();
        return answered.toString().replaceAll("[\\[\\],]", "");
    }

    /** What entry ENTRY of SIZE bytes holds; the tests know it, too. */
    private static byte[] payload(long entry, int size) {
        byte[] word = ("entry " + entry + " ").getBytes(StandardCharsets.US_ASCII);
        byte[] out = new byte[size];
        for (int i = 0; i < size; i++) {
            out[i] = word[i % word.length];
        }
        return out;
    }

    /** First id, last id, and a digest over all lengths and payloads. */
    private static Object seen(Enumeration<LedgerEntry> entries) throws Exception {
        MessageDigest digest = MessageDigest.getInstance("SHA-256");
        long first = -1;
        long last = -1;
        while (entries.hasMoreElements()) {
            LedgerEntry entry = entries.nextElement();
            byte[] payload = entry.getEntry();
            digest.update(ByteBuffer.allocate(4).putInt(payload.length).array());
            digest.update(payload);
            first = first < 0 ? entry.getEntryId() : first;
            last = entry.getEntryId();
        }
        return first + " " + last + " " + HexFormat.of().formatHex(digest.digest());
    }

    private static String hash(byte[] payload) throws Exception {
        MessageDigest digest = MessageDigest.getInstance("SHA-256");
        digest.update(ByteBuffer.allocate(4).putInt(payload.length).array());
        return HexFormat.of().formatHex(digest.digest(payload));
    }

    /** Last confirmed entry, length, whether closed, number of segments. */
    private static String state(LedgerHandle handle) {
        return handle.getLastAddConfirmed() + " " + handle.getLength() + " "
            + handle.getLedgerMetadata().isClosed() + " " + handle.getLedgerMetadata().getAllEnsembles().size();
    }

    /** shell URI V2|V3 SETTING=VALUE[,…] COMMAND…: the real one, its exit status. */
    private static Object shell(String[] w) throws Exception {
        BookieShell shell = new BookieShell(LedgerIdFormatter.LONG_LEDGERID_FORMATTER, EntryFormatter.STRING_FORMATTER);
        shell.setConf(server(w));
        return shell.run(Arrays.copyOfRange(w, 4, w.length));
    }

    /** VERB URI V2|V3 SETTING=VALUE[,…] */
    private static ServerConfiguration server(String[] w) {
        ServerConfiguration conf = new ServerConfiguration();
        conf.setMetadataServiceUri(w[1]);
        conf.setProperty("useV2WireProtocol", w[2].equals("V2"));
        conf.setAdvertisedAddress("127.0.0.1");
        for (String setting : w[3].split(",")) {
            conf.setProperty(setting.substring(0, setting.indexOf('=')), setting.substring(setting.indexOf('=') + 1));
        }
        return conf;
    }
}
