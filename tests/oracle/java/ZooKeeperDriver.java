import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.AddWatchMode;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Op;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.Watcher.WatcherType;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.Stat;

/**
 * Every request that Apache's client has, once or more, against the server at ADDRESS. It prints "CUT" when its
 * connections are to be cut and goes on when a line comes; it then sets its watches again.
 */
public final class ZooKeeperDriver {
    interface Call {
        void run() throws Exception;
    }

    static void fails(Call call) throws Exception {
        try {
            call.run();
        } catch (KeeperException expected) {
            return;
        }
        throw new IllegalStateException("no failure");
    }

    public static void main(String[] args) throws Exception {
        CountDownLatch[] connected = {new CountDownLatch(1)};
        ZooKeeper zk = new ZooKeeper(args[0], 3000, event -> {
            if (event.getState() == Watcher.Event.KeeperState.SyncConnected) {
                connected[0].countDown();
            }
        });
        connected[0].await();
        byte[] data = "data".getBytes(StandardCharsets.UTF_8);
        Watcher none = event -> { };
        Stat stat = new Stat();
        create(zk, data, stat);
        zk.exists("/j/none", none);
        fails(() -> zk.getData("/j/none", false, stat));
        zk.getData("/j", none, stat);
        zk.getData("/j/null", false, stat);
        zk.setData("/j", data, -1);
        fails(() -> zk.setData("/j", data, 77));
        zk.getChildren("/j", none);
        zk.getChildren("/j", false, stat);
        zk.create("/j/fires", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        zk.delete("/j/fires", 0);
        fails(() -> zk.delete("/j", -1));
        zk.sync("/j", (code, path, context) -> { }, null);
        zk.addAuthInfo("digest", "user:secret".getBytes(StandardCharsets.UTF_8));
        zk.whoAmI();
        zk.setACL("/j/null", Ids.CREATOR_ALL_ACL, 0);
        zk.getACL("/j/null", stat);
        fails(() -> zk.setACL("/j", List.of(), 0));
        multi(zk, data);
        zk.getEphemerals();
        zk.getEphemerals("/j");
        zk.getAllChildrenNumber("/j");
        watches(zk, data, connected);
        TimeUnit.MILLISECONDS.sleep(4000);  // a ping
        zk.close();
    }

    static void create(ZooKeeper zk, byte[] data, Stat stat) throws Exception {
        zk.create("/j", new byte[0], Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        fails(() -> zk.create("/j", data, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT));
        zk.create("/j/null", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        zk.create("/j/e", data, Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL);
        zk.create("/j/s", data, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT_SEQUENTIAL);
        zk.create("/j/es", data, Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL_SEQUENTIAL, stat);
        zk.create("/j/two", data, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT, stat);
        zk.create("/j/container", data, Ids.OPEN_ACL_UNSAFE, CreateMode.CONTAINER, stat);
        zk.create("/j/ttl", data, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT_WITH_TTL, stat, 86_400_000);
        zk.create("/j/tt", data, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT_SEQUENTIAL_WITH_TTL, stat, 86_400_000);
        zk.exists("/j/ttl", false);
        zk.exists("/j/container", false);
    }

    static void multi(ZooKeeper zk, byte[] data) throws Exception {
        zk.multi(List.of(
            Op.create("/j/m", data, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT),
            Op.create("/j/mc", data, Ids.OPEN_ACL_UNSAFE, CreateMode.CONTAINER),
            Op.create("/j/mt", data, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT_WITH_TTL, 86_400_000),
            Op.check("/j/m", 0),
            Op.setData("/j/m", data, 0),
            Op.delete("/j/m", 1)));
        fails(() -> zk.multi(List.of(
            Op.check("/j", -1),
            Op.setData("/j/none", data, 0),
            Op.delete("/j/two", -1))));
        zk.multi(List.of(Op.getData("/j"), Op.getChildren("/j"), Op.getData("/j/none")));
    }

    static void watches(ZooKeeper zk, byte[] data, CountDownLatch[] connected) throws Exception {
        Watcher persistent = event -> { };
        zk.addWatch("/j/two", persistent, AddWatchMode.PERSISTENT);
        zk.addWatch("/j", event -> { }, AddWatchMode.PERSISTENT_RECURSIVE);
        zk.setData("/j/two", data, -1);
        zk.create("/j/two/child", data, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        zk.delete("/j/two/child", -1);
        connected[0] = new CountDownLatch(1);
        cut();
        connected[0].await();
        zk.removeWatches("/j/two", persistent, WatcherType.Any, false);
        zk.removeAllWatches("/j", WatcherType.Any, false);
        fails(() -> zk.removeAllWatches("/j/e", WatcherType.Data, false));
        Watcher one = event -> { };
        zk.getData("/j/two", one, null);
        zk.exists("/j/none", one);
        connected[0] = new CountDownLatch(1);
        cut();
        connected[0].await();
        zk.exists("/j", false);
        zk.getData("/j/null", one, null);
        Watcher other = event -> { };
        zk.getData("/j/null", other, null);
        zk.removeWatches("/j/null", other, WatcherType.Data, false);
    }

    static void cut() throws Exception {
        System.out.println("CUT");
        new BufferedReader(new InputStreamReader(System.in)).readLine();
    }
}
