from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ProcessingGuarantees(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ATLEAST_ONCE: _ClassVar[ProcessingGuarantees]
    ATMOST_ONCE: _ClassVar[ProcessingGuarantees]
    EFFECTIVELY_ONCE: _ClassVar[ProcessingGuarantees]
    MANUAL: _ClassVar[ProcessingGuarantees]

class SubscriptionType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SHARED: _ClassVar[SubscriptionType]
    FAILOVER: _ClassVar[SubscriptionType]
    KEY_SHARED: _ClassVar[SubscriptionType]

class SubscriptionPosition(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LATEST: _ClassVar[SubscriptionPosition]
    EARLIEST: _ClassVar[SubscriptionPosition]

class CompressionType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LZ4: _ClassVar[CompressionType]
    NONE: _ClassVar[CompressionType]
    ZLIB: _ClassVar[CompressionType]
    ZSTD: _ClassVar[CompressionType]
    SNAPPY: _ClassVar[CompressionType]

class FunctionState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RUNNING: _ClassVar[FunctionState]
    STOPPED: _ClassVar[FunctionState]
ATLEAST_ONCE: ProcessingGuarantees
ATMOST_ONCE: ProcessingGuarantees
EFFECTIVELY_ONCE: ProcessingGuarantees
MANUAL: ProcessingGuarantees
SHARED: SubscriptionType
FAILOVER: SubscriptionType
KEY_SHARED: SubscriptionType
LATEST: SubscriptionPosition
EARLIEST: SubscriptionPosition
LZ4: CompressionType
NONE: CompressionType
ZLIB: CompressionType
ZSTD: CompressionType
SNAPPY: CompressionType
RUNNING: FunctionState
STOPPED: FunctionState

class Resources(_message.Message):
    __slots__ = ("cpu", "ram", "disk")
    CPU_FIELD_NUMBER: _ClassVar[int]
    RAM_FIELD_NUMBER: _ClassVar[int]
    DISK_FIELD_NUMBER: _ClassVar[int]
    cpu: float
    ram: int
    disk: int
    def __init__(self, cpu: _Optional[float] = ..., ram: _Optional[int] = ..., disk: _Optional[int] = ...) -> None: ...

class RetryDetails(_message.Message):
    __slots__ = ("maxMessageRetries", "deadLetterTopic")
    MAXMESSAGERETRIES_FIELD_NUMBER: _ClassVar[int]
    DEADLETTERTOPIC_FIELD_NUMBER: _ClassVar[int]
    maxMessageRetries: int
    deadLetterTopic: str
    def __init__(self, maxMessageRetries: _Optional[int] = ..., deadLetterTopic: _Optional[str] = ...) -> None: ...

class FunctionDetails(_message.Message):
    __slots__ = ("tenant", "namespace", "name", "className", "logTopic", "processingGuarantees", "userConfig", "runtime", "autoAck", "parallelism", "source", "sink", "resources", "packageUrl", "retryDetails", "secretsMap", "runtimeFlags", "componentType", "customRuntimeOptions", "builtin", "retainOrdering", "retainKeyOrdering", "subscriptionPosition")
    class Runtime(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        JAVA: _ClassVar[FunctionDetails.Runtime]
        PYTHON: _ClassVar[FunctionDetails.Runtime]
        GO: _ClassVar[FunctionDetails.Runtime]
    JAVA: FunctionDetails.Runtime
    PYTHON: FunctionDetails.Runtime
    GO: FunctionDetails.Runtime
    class ComponentType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        UNKNOWN: _ClassVar[FunctionDetails.ComponentType]
        FUNCTION: _ClassVar[FunctionDetails.ComponentType]
        SOURCE: _ClassVar[FunctionDetails.ComponentType]
        SINK: _ClassVar[FunctionDetails.ComponentType]
    UNKNOWN: FunctionDetails.ComponentType
    FUNCTION: FunctionDetails.ComponentType
    SOURCE: FunctionDetails.ComponentType
    SINK: FunctionDetails.ComponentType
    TENANT_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    CLASSNAME_FIELD_NUMBER: _ClassVar[int]
    LOGTOPIC_FIELD_NUMBER: _ClassVar[int]
    PROCESSINGGUARANTEES_FIELD_NUMBER: _ClassVar[int]
    USERCONFIG_FIELD_NUMBER: _ClassVar[int]
    RUNTIME_FIELD_NUMBER: _ClassVar[int]
    AUTOACK_FIELD_NUMBER: _ClassVar[int]
    PARALLELISM_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    SINK_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    PACKAGEURL_FIELD_NUMBER: _ClassVar[int]
    RETRYDETAILS_FIELD_NUMBER: _ClassVar[int]
    SECRETSMAP_FIELD_NUMBER: _ClassVar[int]
    RUNTIMEFLAGS_FIELD_NUMBER: _ClassVar[int]
    COMPONENTTYPE_FIELD_NUMBER: _ClassVar[int]
    CUSTOMRUNTIMEOPTIONS_FIELD_NUMBER: _ClassVar[int]
    BUILTIN_FIELD_NUMBER: _ClassVar[int]
    RETAINORDERING_FIELD_NUMBER: _ClassVar[int]
    RETAINKEYORDERING_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTIONPOSITION_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    namespace: str
    name: str
    className: str
    logTopic: str
    processingGuarantees: ProcessingGuarantees
    userConfig: str
    runtime: FunctionDetails.Runtime
    autoAck: bool
    parallelism: int
    source: SourceSpec
    sink: SinkSpec
    resources: Resources
    packageUrl: str
    retryDetails: RetryDetails
    secretsMap: str
    runtimeFlags: str
    componentType: FunctionDetails.ComponentType
    customRuntimeOptions: str
    builtin: str
    retainOrdering: bool
    retainKeyOrdering: bool
    subscriptionPosition: SubscriptionPosition
    def __init__(self, tenant: _Optional[str] = ..., namespace: _Optional[str] = ..., name: _Optional[str] = ..., className: _Optional[str] = ..., logTopic: _Optional[str] = ..., processingGuarantees: _Optional[_Union[ProcessingGuarantees, str]] = ..., userConfig: _Optional[str] = ..., runtime: _Optional[_Union[FunctionDetails.Runtime, str]] = ..., autoAck: _Optional[bool] = ..., parallelism: _Optional[int] = ..., source: _Optional[_Union[SourceSpec, _Mapping]] = ..., sink: _Optional[_Union[SinkSpec, _Mapping]] = ..., resources: _Optional[_Union[Resources, _Mapping]] = ..., packageUrl: _Optional[str] = ..., retryDetails: _Optional[_Union[RetryDetails, _Mapping]] = ..., secretsMap: _Optional[str] = ..., runtimeFlags: _Optional[str] = ..., componentType: _Optional[_Union[FunctionDetails.ComponentType, str]] = ..., customRuntimeOptions: _Optional[str] = ..., builtin: _Optional[str] = ..., retainOrdering: _Optional[bool] = ..., retainKeyOrdering: _Optional[bool] = ..., subscriptionPosition: _Optional[_Union[SubscriptionPosition, str]] = ...) -> None: ...

class ConsumerSpec(_message.Message):
    __slots__ = ("schemaType", "serdeClassName", "isRegexPattern", "receiverQueueSize", "schemaProperties", "consumerProperties", "cryptoSpec", "poolMessages", "messagePayloadProcessorSpec")
    class ReceiverQueueSize(_message.Message):
        __slots__ = ("value",)
        VALUE_FIELD_NUMBER: _ClassVar[int]
        value: int
        def __init__(self, value: _Optional[int] = ...) -> None: ...
    class SchemaPropertiesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class ConsumerPropertiesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    SCHEMATYPE_FIELD_NUMBER: _ClassVar[int]
    SERDECLASSNAME_FIELD_NUMBER: _ClassVar[int]
    ISREGEXPATTERN_FIELD_NUMBER: _ClassVar[int]
    RECEIVERQUEUESIZE_FIELD_NUMBER: _ClassVar[int]
    SCHEMAPROPERTIES_FIELD_NUMBER: _ClassVar[int]
    CONSUMERPROPERTIES_FIELD_NUMBER: _ClassVar[int]
    CRYPTOSPEC_FIELD_NUMBER: _ClassVar[int]
    POOLMESSAGES_FIELD_NUMBER: _ClassVar[int]
    MESSAGEPAYLOADPROCESSORSPEC_FIELD_NUMBER: _ClassVar[int]
    schemaType: str
    serdeClassName: str
    isRegexPattern: bool
    receiverQueueSize: ConsumerSpec.ReceiverQueueSize
    schemaProperties: _containers.ScalarMap[str, str]
    consumerProperties: _containers.ScalarMap[str, str]
    cryptoSpec: CryptoSpec
    poolMessages: bool
    messagePayloadProcessorSpec: MessagePayloadProcessorSpec
    def __init__(self, schemaType: _Optional[str] = ..., serdeClassName: _Optional[str] = ..., isRegexPattern: _Optional[bool] = ..., receiverQueueSize: _Optional[_Union[ConsumerSpec.ReceiverQueueSize, _Mapping]] = ..., schemaProperties: _Optional[_Mapping[str, str]] = ..., consumerProperties: _Optional[_Mapping[str, str]] = ..., cryptoSpec: _Optional[_Union[CryptoSpec, _Mapping]] = ..., poolMessages: _Optional[bool] = ..., messagePayloadProcessorSpec: _Optional[_Union[MessagePayloadProcessorSpec, _Mapping]] = ...) -> None: ...

class ProducerSpec(_message.Message):
    __slots__ = ("maxPendingMessages", "maxPendingMessagesAcrossPartitions", "useThreadLocalProducers", "cryptoSpec", "batchBuilder", "compressionType", "batchingSpec")
    MAXPENDINGMESSAGES_FIELD_NUMBER: _ClassVar[int]
    MAXPENDINGMESSAGESACROSSPARTITIONS_FIELD_NUMBER: _ClassVar[int]
    USETHREADLOCALPRODUCERS_FIELD_NUMBER: _ClassVar[int]
    CRYPTOSPEC_FIELD_NUMBER: _ClassVar[int]
    BATCHBUILDER_FIELD_NUMBER: _ClassVar[int]
    COMPRESSIONTYPE_FIELD_NUMBER: _ClassVar[int]
    BATCHINGSPEC_FIELD_NUMBER: _ClassVar[int]
    maxPendingMessages: int
    maxPendingMessagesAcrossPartitions: int
    useThreadLocalProducers: bool
    cryptoSpec: CryptoSpec
    batchBuilder: str
    compressionType: CompressionType
    batchingSpec: BatchingSpec
    def __init__(self, maxPendingMessages: _Optional[int] = ..., maxPendingMessagesAcrossPartitions: _Optional[int] = ..., useThreadLocalProducers: _Optional[bool] = ..., cryptoSpec: _Optional[_Union[CryptoSpec, _Mapping]] = ..., batchBuilder: _Optional[str] = ..., compressionType: _Optional[_Union[CompressionType, str]] = ..., batchingSpec: _Optional[_Union[BatchingSpec, _Mapping]] = ...) -> None: ...

class CryptoSpec(_message.Message):
    __slots__ = ("cryptoKeyReaderClassName", "cryptoKeyReaderConfig", "producerEncryptionKeyName", "producerCryptoFailureAction", "consumerCryptoFailureAction")
    class FailureAction(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        FAIL: _ClassVar[CryptoSpec.FailureAction]
        DISCARD: _ClassVar[CryptoSpec.FailureAction]
        CONSUME: _ClassVar[CryptoSpec.FailureAction]
        SEND: _ClassVar[CryptoSpec.FailureAction]
    FAIL: CryptoSpec.FailureAction
    DISCARD: CryptoSpec.FailureAction
    CONSUME: CryptoSpec.FailureAction
    SEND: CryptoSpec.FailureAction
    CRYPTOKEYREADERCLASSNAME_FIELD_NUMBER: _ClassVar[int]
    CRYPTOKEYREADERCONFIG_FIELD_NUMBER: _ClassVar[int]
    PRODUCERENCRYPTIONKEYNAME_FIELD_NUMBER: _ClassVar[int]
    PRODUCERCRYPTOFAILUREACTION_FIELD_NUMBER: _ClassVar[int]
    CONSUMERCRYPTOFAILUREACTION_FIELD_NUMBER: _ClassVar[int]
    cryptoKeyReaderClassName: str
    cryptoKeyReaderConfig: str
    producerEncryptionKeyName: _containers.RepeatedScalarFieldContainer[str]
    producerCryptoFailureAction: CryptoSpec.FailureAction
    consumerCryptoFailureAction: CryptoSpec.FailureAction
    def __init__(self, cryptoKeyReaderClassName: _Optional[str] = ..., cryptoKeyReaderConfig: _Optional[str] = ..., producerEncryptionKeyName: _Optional[_Iterable[str]] = ..., producerCryptoFailureAction: _Optional[_Union[CryptoSpec.FailureAction, str]] = ..., consumerCryptoFailureAction: _Optional[_Union[CryptoSpec.FailureAction, str]] = ...) -> None: ...

class MessagePayloadProcessorSpec(_message.Message):
    __slots__ = ("className", "configs")
    CLASSNAME_FIELD_NUMBER: _ClassVar[int]
    CONFIGS_FIELD_NUMBER: _ClassVar[int]
    className: str
    configs: str
    def __init__(self, className: _Optional[str] = ..., configs: _Optional[str] = ...) -> None: ...

class BatchingSpec(_message.Message):
    __slots__ = ("enabled", "batchingMaxPublishDelayMs", "roundRobinRouterBatchingPartitionSwitchFrequency", "batchingMaxMessages", "batchingMaxBytes", "batchBuilder")
    ENABLED_FIELD_NUMBER: _ClassVar[int]
    BATCHINGMAXPUBLISHDELAYMS_FIELD_NUMBER: _ClassVar[int]
    ROUNDROBINROUTERBATCHINGPARTITIONSWITCHFREQUENCY_FIELD_NUMBER: _ClassVar[int]
    BATCHINGMAXMESSAGES_FIELD_NUMBER: _ClassVar[int]
    BATCHINGMAXBYTES_FIELD_NUMBER: _ClassVar[int]
    BATCHBUILDER_FIELD_NUMBER: _ClassVar[int]
    enabled: bool
    batchingMaxPublishDelayMs: int
    roundRobinRouterBatchingPartitionSwitchFrequency: int
    batchingMaxMessages: int
    batchingMaxBytes: int
    batchBuilder: str
    def __init__(self, enabled: _Optional[bool] = ..., batchingMaxPublishDelayMs: _Optional[int] = ..., roundRobinRouterBatchingPartitionSwitchFrequency: _Optional[int] = ..., batchingMaxMessages: _Optional[int] = ..., batchingMaxBytes: _Optional[int] = ..., batchBuilder: _Optional[str] = ...) -> None: ...

class SourceSpec(_message.Message):
    __slots__ = ("className", "configs", "subscriptionType", "topicsToSerDeClassName", "typeClassName", "timeoutMs", "topicsPattern", "builtin", "subscriptionName", "inputSpecs", "cleanupSubscription", "subscriptionPosition", "negativeAckRedeliveryDelayMs", "skipToLatest")
    class TopicsToSerDeClassNameEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class InputSpecsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: ConsumerSpec
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[ConsumerSpec, _Mapping]] = ...) -> None: ...
    CLASSNAME_FIELD_NUMBER: _ClassVar[int]
    CONFIGS_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTIONTYPE_FIELD_NUMBER: _ClassVar[int]
    TOPICSTOSERDECLASSNAME_FIELD_NUMBER: _ClassVar[int]
    TYPECLASSNAME_FIELD_NUMBER: _ClassVar[int]
    TIMEOUTMS_FIELD_NUMBER: _ClassVar[int]
    TOPICSPATTERN_FIELD_NUMBER: _ClassVar[int]
    BUILTIN_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTIONNAME_FIELD_NUMBER: _ClassVar[int]
    INPUTSPECS_FIELD_NUMBER: _ClassVar[int]
    CLEANUPSUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTIONPOSITION_FIELD_NUMBER: _ClassVar[int]
    NEGATIVEACKREDELIVERYDELAYMS_FIELD_NUMBER: _ClassVar[int]
    SKIPTOLATEST_FIELD_NUMBER: _ClassVar[int]
    className: str
    configs: str
    subscriptionType: SubscriptionType
    topicsToSerDeClassName: _containers.ScalarMap[str, str]
    typeClassName: str
    timeoutMs: int
    topicsPattern: str
    builtin: str
    subscriptionName: str
    inputSpecs: _containers.MessageMap[str, ConsumerSpec]
    cleanupSubscription: bool
    subscriptionPosition: SubscriptionPosition
    negativeAckRedeliveryDelayMs: int
    skipToLatest: bool
    def __init__(self, className: _Optional[str] = ..., configs: _Optional[str] = ..., subscriptionType: _Optional[_Union[SubscriptionType, str]] = ..., topicsToSerDeClassName: _Optional[_Mapping[str, str]] = ..., typeClassName: _Optional[str] = ..., timeoutMs: _Optional[int] = ..., topicsPattern: _Optional[str] = ..., builtin: _Optional[str] = ..., subscriptionName: _Optional[str] = ..., inputSpecs: _Optional[_Mapping[str, ConsumerSpec]] = ..., cleanupSubscription: _Optional[bool] = ..., subscriptionPosition: _Optional[_Union[SubscriptionPosition, str]] = ..., negativeAckRedeliveryDelayMs: _Optional[int] = ..., skipToLatest: _Optional[bool] = ...) -> None: ...

class SinkSpec(_message.Message):
    __slots__ = ("className", "configs", "topic", "serDeClassName", "typeClassName", "builtin", "schemaType", "forwardSourceMessageProperty", "schemaProperties", "consumerProperties", "producerSpec")
    class SchemaPropertiesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class ConsumerPropertiesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    CLASSNAME_FIELD_NUMBER: _ClassVar[int]
    CONFIGS_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    SERDECLASSNAME_FIELD_NUMBER: _ClassVar[int]
    TYPECLASSNAME_FIELD_NUMBER: _ClassVar[int]
    BUILTIN_FIELD_NUMBER: _ClassVar[int]
    SCHEMATYPE_FIELD_NUMBER: _ClassVar[int]
    FORWARDSOURCEMESSAGEPROPERTY_FIELD_NUMBER: _ClassVar[int]
    SCHEMAPROPERTIES_FIELD_NUMBER: _ClassVar[int]
    CONSUMERPROPERTIES_FIELD_NUMBER: _ClassVar[int]
    PRODUCERSPEC_FIELD_NUMBER: _ClassVar[int]
    className: str
    configs: str
    topic: str
    serDeClassName: str
    typeClassName: str
    builtin: str
    schemaType: str
    forwardSourceMessageProperty: bool
    schemaProperties: _containers.ScalarMap[str, str]
    consumerProperties: _containers.ScalarMap[str, str]
    producerSpec: ProducerSpec
    def __init__(self, className: _Optional[str] = ..., configs: _Optional[str] = ..., topic: _Optional[str] = ..., serDeClassName: _Optional[str] = ..., typeClassName: _Optional[str] = ..., builtin: _Optional[str] = ..., schemaType: _Optional[str] = ..., forwardSourceMessageProperty: _Optional[bool] = ..., schemaProperties: _Optional[_Mapping[str, str]] = ..., consumerProperties: _Optional[_Mapping[str, str]] = ..., producerSpec: _Optional[_Union[ProducerSpec, _Mapping]] = ...) -> None: ...

class PackageLocationMetaData(_message.Message):
    __slots__ = ("packagePath", "originalFileName")
    PACKAGEPATH_FIELD_NUMBER: _ClassVar[int]
    ORIGINALFILENAME_FIELD_NUMBER: _ClassVar[int]
    packagePath: str
    originalFileName: str
    def __init__(self, packagePath: _Optional[str] = ..., originalFileName: _Optional[str] = ...) -> None: ...

class FunctionMetaData(_message.Message):
    __slots__ = ("functionDetails", "packageLocation", "version", "createTime", "instanceStates", "functionAuthSpec", "transformFunctionPackageLocation")
    class InstanceStatesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: FunctionState
        def __init__(self, key: _Optional[int] = ..., value: _Optional[_Union[FunctionState, str]] = ...) -> None: ...
    FUNCTIONDETAILS_FIELD_NUMBER: _ClassVar[int]
    PACKAGELOCATION_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    CREATETIME_FIELD_NUMBER: _ClassVar[int]
    INSTANCESTATES_FIELD_NUMBER: _ClassVar[int]
    FUNCTIONAUTHSPEC_FIELD_NUMBER: _ClassVar[int]
    TRANSFORMFUNCTIONPACKAGELOCATION_FIELD_NUMBER: _ClassVar[int]
    functionDetails: FunctionDetails
    packageLocation: PackageLocationMetaData
    version: int
    createTime: int
    instanceStates: _containers.ScalarMap[int, FunctionState]
    functionAuthSpec: FunctionAuthenticationSpec
    transformFunctionPackageLocation: PackageLocationMetaData
    def __init__(self, functionDetails: _Optional[_Union[FunctionDetails, _Mapping]] = ..., packageLocation: _Optional[_Union[PackageLocationMetaData, _Mapping]] = ..., version: _Optional[int] = ..., createTime: _Optional[int] = ..., instanceStates: _Optional[_Mapping[int, FunctionState]] = ..., functionAuthSpec: _Optional[_Union[FunctionAuthenticationSpec, _Mapping]] = ..., transformFunctionPackageLocation: _Optional[_Union[PackageLocationMetaData, _Mapping]] = ...) -> None: ...

class FunctionAuthenticationSpec(_message.Message):
    __slots__ = ("data", "provider")
    DATA_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    provider: str
    def __init__(self, data: _Optional[bytes] = ..., provider: _Optional[str] = ...) -> None: ...

class Instance(_message.Message):
    __slots__ = ("functionMetaData", "instanceId")
    FUNCTIONMETADATA_FIELD_NUMBER: _ClassVar[int]
    INSTANCEID_FIELD_NUMBER: _ClassVar[int]
    functionMetaData: FunctionMetaData
    instanceId: int
    def __init__(self, functionMetaData: _Optional[_Union[FunctionMetaData, _Mapping]] = ..., instanceId: _Optional[int] = ...) -> None: ...

class Assignment(_message.Message):
    __slots__ = ("instance", "workerId")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    WORKERID_FIELD_NUMBER: _ClassVar[int]
    instance: Instance
    workerId: str
    def __init__(self, instance: _Optional[_Union[Instance, _Mapping]] = ..., workerId: _Optional[str] = ...) -> None: ...

class ServiceRequest(_message.Message):
    __slots__ = ("serviceRequestType", "requestId", "functionMetaData", "workerId")
    class ServiceRequestType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        UPDATE: _ClassVar[ServiceRequest.ServiceRequestType]
        DELETE: _ClassVar[ServiceRequest.ServiceRequestType]
        INITIALIZE: _ClassVar[ServiceRequest.ServiceRequestType]
    UPDATE: ServiceRequest.ServiceRequestType
    DELETE: ServiceRequest.ServiceRequestType
    INITIALIZE: ServiceRequest.ServiceRequestType
    SERVICEREQUESTTYPE_FIELD_NUMBER: _ClassVar[int]
    REQUESTID_FIELD_NUMBER: _ClassVar[int]
    FUNCTIONMETADATA_FIELD_NUMBER: _ClassVar[int]
    WORKERID_FIELD_NUMBER: _ClassVar[int]
    serviceRequestType: ServiceRequest.ServiceRequestType
    requestId: str
    functionMetaData: FunctionMetaData
    workerId: str
    def __init__(self, serviceRequestType: _Optional[_Union[ServiceRequest.ServiceRequestType, str]] = ..., requestId: _Optional[str] = ..., functionMetaData: _Optional[_Union[FunctionMetaData, _Mapping]] = ..., workerId: _Optional[str] = ...) -> None: ...
